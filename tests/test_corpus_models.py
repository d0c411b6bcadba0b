"""The marts against the answers of the official code, over its corpus of logs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from agreement import differences
from counter import Session, count
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
NO_USAGE = dict.fromkeys(BUCKETS.values(), 0)
# The meter up to 0.1.1 keeps the last sample of a step, that since 0.1.2 the last of a step between two retries.
OLD_METER_READERS = {"v0"}
# Two samples of one step without `llm/retry-started` between them: the harness counts the later only, we both.
UNDERCOUNTED = {"edit-source-empty-assistant", "edit4-attempt-usage-no-retry-marker"}


@dataclass(frozen=True)
class Corpus:
    """The corpus, built into one database: each log a session named for its case, since many are copies of one."""

    folder: Path
    files: dict[str, str]
    db: duckdb.DuckDBPyConnection

    def answers(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """What the readers that accept the log say of it, by the reader's short name."""
        answer = json.loads((self.folder / name / "expected.json").read_text(encoding="utf-8"))
        readers = {answer["reader"].split()[0]: answer} | answer.get("readers", {})
        return ((reader, said) for reader, said in readers.items() if "rejected" not in said)

    def own_answers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What the reader of each log's own format says; others migrate it first, which adds and drops events."""
        for name in self.files:
            reader, said = next(self.answers(name), ("", {}))
            own = json.loads((self.folder / name / "expected.json").read_text(encoding="utf-8"))["reader"]
            if said and own.split()[0] == reader:
                yield name, said

    def sessions(self) -> Iterator[tuple[str, Session]]:
        """The second count of the logs that a product reads."""
        for name, file in self.files.items():
            if any(self.answers(name)):
                yield name, count((self.folder / name / file).read_bytes(), name)


@pytest.fixture(scope="module")
def built(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    """The corpus and its database."""
    folder = tmp_path_factory.mktemp("corpus")
    for table in TABLES:
        (folder / table).mkdir()
    lines = (corpus / "index.jsonl").read_text(encoding="utf-8").splitlines()
    files = {case["name"]: case["file"] for case in map(json.loads, lines)}
    logs: dict[str, LogFile] = {}
    for name, file in files.items():
        for log in find_logs([parse_source(str(corpus / name / file))]).logs:
            logs[name] = log
    converted = convert(Batch("part.parquet", tuple(logs.values())), folder)
    found = [r.row | {"session_id": name} for name, r in zip(logs, converted, strict=True) if r.row is not None]
    write_rows(folder / "logs" / "part.parquet", LOGS, found)
    raw = RawFiles({table: tuple(sorted(folder.rglob(f"{table}/*.parquet"))) for table in TABLES})
    build_database(raw, folder / "x.duckdb", threads=2)
    with opened(folder / "x.duckdb") as db:
        yield Corpus(corpus, files, db)


def sums(db: duckdb.DuckDBPyConnection, condition: str) -> dict[str, dict[str, int]]:
    """The tokens of each session's calls of models under a condition."""
    columns = ", ".join(f"coalesce(sum({column}), 0)::bigint as {column}" for column in BUCKETS.values())
    query = f"select session_id, {columns} from marts.attempts where kind = 'model' and {condition} group by all"
    return {row.pop("session_id"): row for row in rows(db, query)}


def test_each_meter_is_reproduced_through_its_flag(built: Corpus) -> None:
    old, new = sums(built.db, "is_counted_by_old_meter"), sums(built.db, "is_counted_by_new_meter")
    compared: dict[str, int] = defaultdict(int)
    for name in built.files:
        for reader, said in built.answers(name):
            usage = said.get("ownUsage") or said["usage"]
            meter = old if reader in OLD_METER_READERS else new
            shown = {BUCKETS[bucket]: tokens for bucket, tokens in usage.items()}
            assert meter.get(name, NO_USAGE) == shown, f"{name} by reader {reader}"
            compared[reader] += 1
    assert all(compared[reader] > 20 for reader in ("v0", "v2", "v3", "v4")), compared


def test_ours_is_the_new_meter_but_where_that_drops_a_call(built: Corpus) -> None:
    ours, new = sums(built.db, "true"), sums(built.db, "is_counted_by_new_meter")
    read = {name for name in built.files if any(built.answers(name))}
    assert {name for name in read if ours.get(name, NO_USAGE) != new.get(name, NO_USAGE)} == UNDERCOUNTED


def test_turns_steps_and_tool_calls_are_as_many(built: Corpus) -> None:
    sessions = {row["session_id"]: row for row in rows(built.db, "from marts.sessions")}
    calls = {row["session_id"]: row for row in rows(built.db, CALLS)}
    compared = 0
    for name, said in built.own_answers():
        session, counts = sessions[name], said["counts"]
        if session["verdict"] == "clean" and session["inherited_event_count"] == 0:
            told = (session["turn_count"], session["step_count"], session["event_count"])
            assert told == (counts["turnStarts"], counts["stepStarts"], said["eventCount"]), name
            made = calls.get(name, {"started": 0, "answered": 0})
            assert made["started"] == counts["toolCalls"], name
            compared += 1
    assert compared > 250


CALLS = """
select session_id, count(call_seq) as started, count(result_seq) as answered
from marts.tool_calls where not is_nested group by session_id
"""


def test_the_second_count_agrees(built: Corpus) -> None:
    sessions = dict(built.sessions())
    told = differences(built.db, sessions.values(), tables=("attempts", "turns", "steps", "tool_calls"))
    # Logs that every product refuses are in the marts; whether they are read at all is not a matter of counting.
    assert [line for line in told if any(f"('{name}'" in line for name in sessions)] == []


def test_the_surface_is_the_official_one(built: Corpus) -> None:
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows(
        built.db, "select session_id, seq from marts.transcript where shadowed_by_seq is null order by order_key, seq"
    ):
        found[row["session_id"]].append(row["seq"])
    for name, said in built.own_answers():
        assert found[name] == said["surface"]["nodes"], name
