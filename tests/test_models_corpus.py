"""Sums of the attempts against what the harness's own meter says of the official logs."""

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

# Two samples of one step without `llm/retry-started` between them: the meter keeps only the later.
UNDERCOUNTED = {"edit-source-empty-assistant", "edit4-attempt-usage-no-retry-marker"}
BUCKETS = {
    "uncachedInputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}


@pytest.fixture(scope="module")
def cases(corpus: Path) -> dict[str, dict[str, Any]]:
    """The cases by name."""
    lines = (corpus / "index.jsonl").read_text(encoding="utf-8").splitlines()
    return {case["name"]: case for case in map(json.loads, lines)}


@pytest.fixture(scope="module")
def db(
    corpus: Path, cases: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """All logs in one database, each a session named for its case: the corpus holds many copies of one session."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in TABLES:
        (folder / name).mkdir()
    logs: dict[str, LogFile] = {}
    for case in cases.values():
        for log in find_logs([parse_source(str(corpus / case["name"] / case["file"]))]).logs:
            logs[case["name"]] = log
    converted = convert(Batch("part.parquet", tuple(logs.values())), folder)
    found = [
        result.row | {"session_id": name}
        for name, result in zip(logs, converted, strict=True)
        if result.row is not None
    ]
    write_rows(folder / "logs" / "part.parquet", LOGS, found)
    files = RawFiles({name: tuple(sorted(folder.rglob(f"{name}/*.parquet"))) for name in TABLES})
    build_database(files, folder / "x.duckdb", threads=2)
    with opened(folder / "x.duckdb") as db:
        yield db


def answers(corpus: Path, cases: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The answers for the logs that the harness reads."""
    for name in cases:
        answer = json.loads((corpus / name / "expected.json").read_text(encoding="utf-8"))
        if "rejected" not in answer:
            yield name, answer


def test_attempts_sum_to_what_the_meter_shows(
    db: duckdb.DuckDBPyConnection, corpus: Path, cases: dict[str, dict[str, Any]]
) -> None:
    sums = ", ".join(f"coalesce(sum({column}), 0)::bigint as {column}" for column in BUCKETS.values())
    query = f"select session_id, {sums} from intermediate.attempts where kind = 'model' group by all"
    found = {row["session_id"]: [row[column] for column in BUCKETS.values()] for row in rows(db, query)}
    different = set()
    for name, answer in answers(corpus, cases):
        usage = answer.get("ownUsage") or answer["usage"]
        if found.get(name, [0] * len(BUCKETS)) != [usage[bucket] for bucket in BUCKETS]:
            different.add(name)
    assert different == UNDERCOUNTED


def test_turns_and_steps_are_those_the_harness_counts(
    db: duckdb.DuckDBPyConnection, corpus: Path, cases: dict[str, dict[str, Any]]
) -> None:
    sessions = {row["session_id"]: row for row in rows(db, "from marts.sessions where inherited_event_count = 0")}
    for name, answer in answers(corpus, cases):
        if name in sessions:
            counts = (sessions[name]["turn_count"], sessions[name]["step_count"])
            assert counts == (answer["counts"]["turnStarts"], answer["counts"]["stepStarts"]), name
