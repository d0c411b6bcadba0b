"""The two meters of the harness, over the official logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakes import opened, rows
from turnlake.logs.discover import LogFile, find_logs
from turnlake.logs.source import parse_source
from turnlake.models.build import build_database
from turnlake.parquet.convert import Batch, convert
from turnlake.parquet.rawfiles import RawFiles
from turnlake.parquet.tables import LOGS, TABLES
from turnlake.parquet.write import write_rows

BUCKETS = {
    "uncachedInputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}
# Releases up to 0.1.1 replace by turn and step alone.
OLD = {"v0"}


@pytest.fixture(scope="module")
def answers(corpus: Path) -> dict[str, dict[str, Any]]:
    """The answers by case, for the logs that their reader reads."""
    found = {path.parent.name: json.loads(path.read_text("utf-8")) for path in sorted(corpus.glob("*/expected.json"))}
    return {name: answer for name, answer in found.items() if "rejected" not in answer}


@pytest.fixture(scope="module")
def db(
    corpus: Path, answers: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The logs in one database, each a session named for its case."""
    folder = tmp_path_factory.mktemp("meters")
    for name in TABLES:
        (folder / name).mkdir()
    index = map(json.loads, (corpus / "index.jsonl").read_text("utf-8").splitlines())
    files = {case["name"]: corpus / case["name"] / case["file"] for case in index if case["name"] in answers}
    logs: dict[str, LogFile] = {}
    for name, file in files.items():
        for log in find_logs([parse_source(str(file))]).logs:
            logs[name] = log
    converted = convert(Batch("part.parquet", tuple(logs.values())), folder)
    facts = zip(logs, converted, strict=True)
    found = [result.row | {"session_id": name} for name, result in facts if result.row is not None]
    write_rows(folder / "logs" / "part.parquet", LOGS, found)
    raw = RawFiles({name: tuple(sorted((folder / name).glob("*.parquet"))) for name in TABLES})
    build_database(raw, folder / "x.duckdb", threads=2)
    with opened(folder / "x.duckdb") as db:
        yield db


def test_each_meter_sums_what_its_releases_show(
    db: duckdb.DuckDBPyConnection, answers: dict[str, dict[str, Any]]
) -> None:
    sums = {}
    for meter in ("old", "new"):
        columns = ", ".join(f"coalesce(sum({name}), 0)::bigint as {name}" for name in BUCKETS.values())
        query = f"select session_id, {columns} from marts.attempts where is_counted_by_{meter}_meter group by all"
        sums[meter] = {row["session_id"]: [row[name] for name in BUCKETS.values()] for row in rows(db, query)}
    for name, answer in answers.items():
        usage = answer.get("ownUsage") or answer["usage"]
        meter = "old" if answer["reader"] in OLD else "new"
        shown = sums[meter].get(name, [0] * len(BUCKETS))
        assert shown == [usage[bucket] for bucket in BUCKETS], (name, meter)
