"""The alerts: each fires on what it is for, and on nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakes import START_MS, Log, Row, built, opened, rows
from turnlake.cli import main
from turnlake.models.folder import sql_folder

ALERTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((sql_folder() / "alerts").glob("*.sql"))}
PRICED = {"provider": "deepseek-official", "model": "deepseek-v4-pro"}
DAY_MS = 86_400_000
# Long ago and far ahead, whenever this runs.
IN_2001, IN_2100 = 1_000_000_000_000, 4_102_444_800_000


def log(name: str, *, at: int = START_MS, **facts: Any) -> Log:
    facts = {"created_at_ms": at, "first_event_ms": at, "last_event_ms": at} | facts
    return Log(name, **facts)


def ended(name: str, state: str, **end: Any) -> Log:
    written = log(name)
    written.event("turn/start", 1)
    written.event("step/start", 1, 1)
    written.event("llm/retry", 1, 1, error_code="SERVER")
    written.event("llm/retry-started", 1, 1)
    written.message(input_tokens=10, output_tokens=2, usage_place="message", **PRICED)
    written.event("turn/end", 1, reason_kind=state, **end)
    return written


def open_turn(name: str, at: int, *, goes_on: bool = False) -> Log:
    written = log(name, at=at)
    written.event("turn/start", 1, time_ms=at)
    if goes_on:
        written.event("session/end-seed", time_ms=at)
    return written


def calls(written: Log, tool: str, count: int, *, ms: int = 1000, failed: int = 0) -> None:
    ids = [f"{tool}{number}" for number in range(count)]
    written.message(tool_call_ids=ids, tool_call_names=[tool] * count, **PRICED)
    start = START_MS + 1000 * written.line
    for number, call_id in enumerate(ids):
        written.event("tool/call", 1, 1, call_id=call_id, tool_name=tool, time_ms=start)
        result = {"call_id": call_id, "surface_op": "append", "is_error": number < failed}
        written.event("tool/result", 1, 1, time_ms=start + ms + number, **result)


def with_tools() -> Log:
    written = log("tools")
    written.event("turn/start", 1)
    written.event("step/start", 1, 1)
    calls(written, "flaky", 5, failed=3)
    calls(written, "fine", 5, failed=1)
    calls(written, "rare", 2, failed=2)
    calls(written, "slow", 20, ms=70_000)
    calls(written, "quick", 20)
    calls(written, "few", 3, ms=100_000)
    written.event("turn/end", 1, reason_kind="completed")
    return written


def spending() -> Iterator[Log]:
    """Two days of a little more than 2, then one of 20, of 7, and of 2."""
    for day, millions in enumerate((3, 3, 30, 10, 3), start=10):
        written = log(f"day {day}")
        usage = {"input_tokens": millions * 1_000_000, "output_tokens": 0, "time_ms": START_MS + day * DAY_MS}
        written.turn(1, **usage, **PRICED)
        yield written


def everything() -> list[Log]:
    failure = {"error_code": "SERVER", "error_message": "busy " * 100, "error_status": 503}
    empty = log("empty")
    empty.turn(1, "max-tokens", content_block_count=0, reasoning_tokens=2, **PRICED)
    full = log("full")
    full.turn(1, "max-tokens", **PRICED)
    unpriced = log("unpriced")
    unpriced.turn(1, provider="acme", model="coder")
    unknown = log("unknown usage")
    unknown.turn(1, input_tokens=None, output_tokens=None, provider="acme", model="other")
    unread = log("unread", is_read=False, verdict="refused", verdict_reason="unknown_version", dialect=None)
    unread.finding("unreadable_folder", log_id=None, severity="error", detail="/logs/x: permission denied")
    unread.finding("deleted_marker", log_id=None, severity="advisory")
    return [
        ended("failed", "error", **failure),
        ended("fine", "completed"),
        ended("blocked", "blocked"),
        ended("aborted", "aborted"),
        empty,
        full,
        open_turn("silent", IN_2001),
        open_turn("live", IN_2100),
        open_turn("abandoned", IN_2100, goes_on=True),
        with_tools(),
        *spending(),
        unpriced,
        unknown,
        unread,
        log("refused", verdict="refused", verdict_reason="corrupt"),
        log("refused", log_id="old", verdict="refused", superseded_by="log-refused", superseded_why="generation"),
        log("tail", verdict="removable_tail", verdict_reason="bad_record"),
    ]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """A database with something for each alert, and much that must not fire."""
    folder = tmp_path_factory.mktemp("alerts")
    built(folder, *everything()).close()
    # No check of the derivation has been written into this database yet.
    with duckdb.connect(folder / "lake.duckdb") as file:
        file.execute(
            "insert into marts.projection_checks by name from (values "
            "('failed', 'l1', 'mismatch', 'differs: usage', 3), ('fine', 'l2', 'match', null, 3)"
            ") as c (session_id, log_id, status, reason, checkpoint_count)"
        )
    return opened(folder / "lake.duckdb")


def fired(db: duckdb.DuckDBPyConnection, name: str) -> list[tuple[Any, ...]]:
    return [(row["session_id"], row["turn"], row["severity"], row["message"]) for row in rows(db, ALERTS[name])]


def test_the_alerts_are_those_that_are_promised() -> None:
    assert ALERTS.keys() == {
        "error_turns", "max_tokens_turns", "empty_max_tokens", "dangling_turns", "blocked_turns", "failing_tools",
        "slow_tools", "cost_spike", "unpriced_models", "unreadable_logs", "projection_mismatch",
    }  # fmt: skip


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_one_select_with_its_threshold_first(db: duckdb.DuckDBPyConnection, name: str) -> None:
    text = ALERTS[name]
    head = r"-- One row per .*\.\n-- key: [a-z_, ]+\n\nwith threshold as \(\n    -- .*\n    select "
    assert re.match(head, text), text[:200]
    assert len(duckdb.extract_statements(text)) == 1
    found = db.sql(text)
    assert found.columns[:5] == ["session_id", "turn", "at", "severity", "message"]
    types = [str(type_) for type_ in found.types]
    assert types[:5] == ["VARCHAR", "BIGINT", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "VARCHAR"]
    assert not {"HUGEINT", "DOUBLE", "JSON"} & set(types)
    assert found.fetchall() == db.sql(text).fetchall()


@pytest.mark.parametrize("name", ALERTS)
def test_each_row_can_be_read_alone(db: duckdb.DuckDBPyConnection, name: str) -> None:
    found = rows(db, ALERTS[name])
    assert found
    for row in found:
        assert row["severity"] in ("error", "warning", "advisory")
        assert row["message"]


def test_no_alert_fires_when_all_is_well(tmp_path: Path) -> None:
    quiet = log("quiet")
    quiet.turn(1, **PRICED)
    db = built(tmp_path, quiet)
    assert {name: rows(db, text) for name, text in ALERTS.items()} == {name: [] for name in ALERTS}


def test_error_turns(db: duckdb.DuckDBPyConnection) -> None:
    [(session_id, turn, severity, message)] = fired(db, "error_turns")
    assert (session_id, turn, severity) == ("failed", 1, "error")
    assert message.startswith("turn ended as error: SERVER (HTTP 503), busy busy")
    assert message.endswith(", retries: 1") and len(message) < 300


def test_max_tokens_turns(db: duckdb.DuckDBPyConnection) -> None:
    assert [row[:3] for row in fired(db, "max_tokens_turns")] == [("empty", 1, "warning"), ("full", 1, "warning")]


def test_empty_max_tokens(db: duckdb.DuckDBPyConnection) -> None:
    message = "empty message at the output limit: 12 tokens, 2 of them reasoning"
    assert fired(db, "empty_max_tokens") == [("empty", 1, "warning", message)]


def test_dangling_turns(db: duckdb.DuckDBPyConnection) -> None:
    assert fired(db, "dangling_turns") == [
        ("silent", 1, "error", "turn is open and silent for more than 15 minutes; last seen in phase claim"),
        ("abandoned", 1, "error", "turn never ended, the session went on without it; last seen in phase claim"),
    ]


def test_blocked_turns(db: duckdb.DuckDBPyConnection) -> None:
    assert fired(db, "blocked_turns") == [("blocked", 1, "warning", "turn was blocked before step 2")]


def test_failing_tools(db: duckdb.DuckDBPyConnection) -> None:
    message = "tool flaky failed in 3 of 5 calls of 2026-08-25"
    assert fired(db, "failing_tools") == [("tools", 1, "warning", message)]


def test_slow_tools(db: duckdb.DuckDBPyConnection) -> None:
    message = "tool slow: 95 of 100 calls of 2026-08-25 within 70018 ms, the slowest in 70019 ms"
    assert fired(db, "slow_tools") == [("tools", 1, "warning", message)]


def test_cost_spike(db: duckdb.DuckDBPyConnection) -> None:
    message = "2026-09-06 cost 19.80, more than 3 times the mean of the 3 days of use before"
    assert fired(db, "cost_spike") == [("day 12", None, "warning", message)]


def test_unpriced_models(db: duckdb.DuckDBPyConnection) -> None:
    message = "no price for acme/coder: the 12 tokens it used are in no cost; calls: 1"
    assert fired(db, "unpriced_models") == [("unpriced", 1, "warning", message)]


def test_unreadable_logs(db: duckdb.DuckDBPyConnection) -> None:
    assert fired(db, "unreadable_logs") == [
        ("refused", None, "error", "the harness would refuse the log: corrupt"),
        ("unread", None, "error", "the log was not read: unknown_version"),
        (None, None, "error", "unreadable_folder: /logs/x: permission denied"),
    ]


def test_projection_mismatch(db: duckdb.DuckDBPyConnection) -> None:
    message = "differs: usage"
    assert fired(db, "projection_mismatch") == [("failed", None, "error", message)]


def test_an_empty_message_at_the_output_limit_raises_its_alerts(cases: Path, tmp_path: Path) -> None:
    expected: Row = json.loads((cases / "S08" / "expected.json").read_text())
    assert main(["build", str(cases / "S08"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    db = opened(tmp_path / "lake" / "turnlake.duckdb")
    assert [row["turn"] for row in rows(db, ALERTS["max_tokens_turns"])] == expected["alert_max_tokens_turns"]
    assert [row["total_tokens"] for row in rows(db, ALERTS["empty_max_tokens"])] == [6048]


def test_every_alert_is_documented(root: Path) -> None:
    lines = (root / "docs" / "alerts.md").read_text(encoding="utf-8").splitlines()
    assert {match[1] for line in lines if (match := re.match(r"\| `(\w+)` \| (?:error|warning) \|", line))} == set(
        ALERTS
    )
