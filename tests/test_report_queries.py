"""The queries kept in sql/reports: each runs as it is, and says of the sample what is true of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakes import Log, Row, built, opened, rows
from turnlake.cli import main
from turnlake.models.folder import sql_folder

REPORTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((sql_folder() / "reports").glob("*.sql"))}


@pytest.fixture(scope="module")
def lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the sample."""
    folder = tmp_path_factory.mktemp("reports")
    assert main(["build", str(sample), "--lake", str(folder / "lake"), "--workers", "1", "-q"]) == 0
    return folder / "lake" / "turnlake.duckdb"


@pytest.fixture
def db(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection without variables of other tests."""
    with opened(lake) as db:
        yield db


def report(db: duckdb.DuckDBPyConnection, name: str, **variables: Any) -> list[Row]:
    for variable, value in variables.items():
        text = str(value).replace("'", "''")
        db.execute(f"set variable {variable} = {value if isinstance(value, int) else repr(text)}")
    return rows(db, REPORTS[name])


def one(db: duckdb.DuckDBPyConnection, query: str) -> Row:
    [row] = rows(db, query)
    return row


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_runs_without_any_variable_and_names_its_parameters_first(
    db: duckdb.DuckDBPyConnection, name: str
) -> None:
    text = REPORTS[name]
    assert text.split("\n\n")[1].removeprefix("with ").removeprefix("recursive ").startswith("parameters as (\n")
    assert "set variable" in text.split("\n\n")[0]
    assert len(duckdb.extract_statements(text)) == 1
    found = db.execute(text)
    assert not {"HUGEINT", "JSON"} & {str(column[1]) for column in found.description or ()}
    assert found.fetchall()


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_runs_in_the_file_itself_in_any_zone(lake: Path, name: str) -> None:
    with duckdb.connect(lake, read_only=True) as db:
        db.execute("set TimeZone = 'America/Denver'")
        assert db.execute(REPORTS[name]).fetchall()


def test_reports_of_an_empty_lake_are_empty(tmp_path: Path) -> None:
    db = built(tmp_path)
    assert {name: rows(db, text) for name, text in REPORTS.items()} == {name: [] for name in REPORTS}


def test_turn_events_are_those_between_its_start_and_its_end(db: duckdb.DuckDBPyConnection) -> None:
    turn = one(db, "from marts.turns where state = 'error'")
    found = report(db, "turn_events", session_id=turn["session_id"], turn=turn["turn"])
    assert {row["session_id"] for row in found} == {turn["session_id"]}
    assert [row["seq"] for row in found] == list(range(turn["start_seq"], turn["end_seq"] + 1))
    assert (found[0]["type"], found[-1]["type"], found[-1]["outcome"]) == ("turn/start", "turn/end", "error")
    assert [row["line"] for row in found] == sorted(row["line"] for row in found)
    assert sum(row["type"] == "llm/retry" for row in found) == turn["retry_count"] == 2


def test_turn_events_count_every_chunk_of_the_oldest_formats(db: duckdb.DuckDBPyConnection) -> None:
    turn = one(
        db,
        "select t.* from marts.turns as t inner join marts.sessions as s using (session_id) "
        "where s.format_version = 0 and t.state = 'completed' order by s.created_at, t.turn limit 1",
    )
    found = report(db, "turn_events", session_id=turn["session_id"], turn=turn["turn"])
    chunks = [row for row in found if row["type"].startswith("assistant/chunk")]
    assert chunks
    count = sum(row["chunk_count"] for row in chunks) + sum(row not in chunks for row in found)
    assert count == turn["end_seq"] - turn["start_seq"] + 1


def test_turn_events_of_a_turn_without_an_end_stop_at_the_next_turn(db: duckdb.DuckDBPyConnection) -> None:
    turn = one(db, "from marts.turns where is_dangling order by started_at limit 1")
    found = report(db, "turn_events", session_id=turn["session_id"], turn=turn["turn"])
    assert found[0]["type"] == "turn/start"
    assert sum(row["type"] == "turn/start" for row in found) == 1


def test_a_round_trip_shows_what_held_the_call_up(db: duckdb.DuckDBPyConnection) -> None:
    call = one(db, "from marts.tool_calls where approval_wait_ms > 0 and outcome = 'ok' order by called_at limit 1")
    found = report(db, "tool_round_trip", session_id=call["session_id"], call_id=call["call_id"])
    assert [row["type"] for row in found if not row["type"].startswith("tool/")] == [
        "assistant/message",
        "approval/asked",
        "approval/decided",
    ]
    by_type = {row["type"]: row for row in found}
    assert by_type["approval/decided"]["outcome"] == "allowed-once"
    assert by_type["tool/call"]["after_call_ms"] == 0
    assert by_type["tool/result"]["after_call_ms"] == call["wall_ms"]
    assert by_type["tool/call"]["text"] == call["arguments"]


def test_a_round_trip_shows_nested_calls_and_no_other_call(tmp_path: Path) -> None:
    log = Log()
    for turn in (1, 2):
        log.event("turn/start", turn)
        log.event("step/start", turn, 1)
        log.message(turn, 1, tool_call_ids=["c1", "c2"], tool_call_names=["code", "bash"])
        log.event("tool/call", turn, 1, call_id="c1", tool_name="code")
        log.event("tool/call", turn, 1, call_id="c2", tool_name="bash")
        log.event("tool/ptc-dispatch-start", call_id="c1:code:1", parent_call_id="c1", tool_name="read")
        log.event("tool/ptc-dispatch", call_id="c1:code:1", parent_call_id="c1", tool_name="read")
        log.event("tool/result", turn, 1, call_id="c1", surface_op="append")
        log.event("turn/end", turn, reason_kind="completed")
    found = report(built(tmp_path, log), "tool_round_trip", session_id="s1", turn=1, call_id="c1")
    assert [(row["seq"], row["type"]) for row in found] == [
        (2, "assistant/message"),
        (3, "tool/call"),
        (5, "tool/ptc-dispatch-start"),
        (6, "tool/ptc-dispatch"),
        (7, "tool/result"),
    ]


def test_provenance_of_a_summary_goes_down_to_the_chunks(db: duckdb.DuckDBPyConnection) -> None:
    summary = one(
        db,
        "select e.session_id, e.seq, e.source_ranges from staging.events as e inner join marts.compactions as c "
        "on e.session_id = c.session_id and e.seq between c.start_seq and c.end_seq where e.surface_op = 'replace'",
    )
    found = report(db, "message_provenance", session_id=summary["session_id"], seq=summary["seq"])
    assert {row["message_seq"] for row in found} == {summary["seq"]}
    ranges = zip(summary["source_ranges"][::2], summary["source_ranges"][1::2], strict=True)
    named = {seq for first, last in ranges for seq in range(first, last + 1)}
    assert {row["seq"] for row in found if row["depth"] == 1 and row["source_of_seq"] == summary["seq"]} == named
    chunks = [row for row in found if row["type"].startswith("chunk ")]
    assert chunks and {row["depth"] for row in chunks} == {2}
    assert all(row["line"] and row["byte_offset"] for row in found)


def test_provenance_of_an_answer_of_the_oldest_formats_is_its_stream(db: duckdb.DuckDBPyConnection) -> None:
    answer = one(
        db,
        "select e.session_id, e.seq, e.source_ranges, p.payload from staging.events as e "
        "inner join raw.events as p on e.session_id = p.session_id and e.seq = p.seq and e.line = p.line "
        "semi join staging.sessions as s on p.log_id = s.log_id and s.format_version = 0 "
        "where e.type = 'assistant/message' and len(e.tool_call_ids) is null order by e.session_id, e.seq limit 1",
    )
    found = report(db, "message_provenance", session_id=answer["session_id"], seq=answer["seq"])
    assert (found[0]["depth"], found[0]["seq"], found[0]["type"]) == (0, answer["seq"], "assistant/message")
    ranges = zip(answer["source_ranges"][::2], answer["source_ranges"][1::2], strict=True)
    assert [row["seq"] for row in found[1:]] == [seq for first, last in ranges for seq in range(first, last + 1)]
    text = "".join(row["text"] for row in found if row["type"] == "chunk text-delta")
    blocks = json.loads(answer["payload"])["message"]["content"]
    assert text == "".join(block["text"] for block in blocks if block["type"] == "text")


def test_reasons_by_day_add_up_to_the_turns(db: duckdb.DuckDBPyConnection) -> None:
    found = report(db, "turn_end_reasons_by_day")
    assert sum(row["turn_count"] for row in found) == one(db, "select count(*) as n from marts.turns")["n"]
    shares: dict[Any, float] = {}
    for row in found:
        key = (row["day"], row["provider"], row["model"])
        shares[key] = shares.get(key, 0) + row["share"]
    assert all(abs(share - 1) < 1e-9 for share in shares.values())


def test_days_can_be_limited(db: duckdb.DuckDBPyConnection) -> None:
    for name in ("turn_end_reasons_by_day", "token_usage", "cost_by_day"):
        days = {str(row["day"]) for row in report(db, name, since="2026-09-15", until="2026-09-17")}
        assert days == {"2026-09-15", "2026-09-16"}, name


def test_token_usage_says_what_empty_messages_used_up(db: duckdb.DuckDBPyConnection) -> None:
    found = report(db, "token_usage")
    attempts = one(db, "select count(*) as n, sum(total_tokens)::bigint as tokens from marts.attempts")
    assert sum(row["attempt_count"] for row in found) == attempts["n"]
    assert sum(row["total_tokens"] or 0 for row in found) == attempts["tokens"]
    [wasteful] = [row for row in found if row["empty_max_tokens_count"]]
    share = wasteful["empty_max_tokens_total_tokens"] / wasteful["total_tokens"]
    assert wasteful["empty_max_tokens_share"] == share
    assert {row["empty_max_tokens_share"] for row in found if row is not wasteful} == {0.0}


def test_the_slowest_tools_come_first_and_few_calls_are_marked(db: duckdb.DuckDBPyConnection) -> None:
    found = report(db, "slowest_tools")
    percentiles = [row["p95_ms"] for row in found if row["p95_ms"] is not None]
    assert percentiles == sorted(percentiles, reverse=True)
    assert all(row["is_p95_reliable"] is (row["measured_count"] >= 20) for row in found)
    assert all(row["is_p99_reliable"] is (row["measured_count"] >= 100) for row in found)
    assert all(row["is_p95_reliable"] for row in report(db, "slowest_tools", p95_call_count=0))


def test_costs_by_day_add_up_and_say_what_they_lack(db: duckdb.DuckDBPyConnection) -> None:
    found = report(db, "cost_by_day")
    expected = one(
        db,
        "select sum(cost) as cost, count_if(total_tokens is null)::bigint as unknown, "
        "count_if(total_tokens is not null and cost is null)::bigint as unpriced from marts.attempts",
    )
    assert sum(row["cost"] for row in found if row["cost"] is not None) == expected["cost"] > 0
    assert sum(row["unknown_usage_attempt_count"] for row in found) == expected["unknown"]
    assert sum(row["unpriced_attempt_count"] for row in found) == expected["unpriced"] > 0
    assert {row["cost"] for row in found if row["provider"] == "ollama"} == {None}
