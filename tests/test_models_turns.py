"""Turns, how they end, the closers of a crash, compactions."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakes import START_MS, Log, Row, built, rows
from official import Official
from turnlake.api import connect
from turnlake.cli import main

PRICED = {"provider": "deepseek-official", "model": "deepseek-v4-pro"}
Query = Callable[[str], list[Row]]


@pytest.fixture
def case(cases: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], tuple[Row, Query]]:
    """Builds a case from its log files: what it expects, and queries of the lake."""

    def build(name: str) -> tuple[Row, Query]:
        assert main(["build", str(cases / name), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
        db = connect(tmp_path / "lake")
        request.addfinalizer(db.close)
        return json.loads((cases / name / "expected.json").read_text()), lambda query: rows(db, query)

    return build


def turns(folder: Path, *logs: Log, table: str = "turns") -> list[Row]:
    return rows(built(folder, *logs), f"from marts.{table} order by session_id, turn")


def called(log: Log, *call_ids: str, turn: int = 1, step: int = 1, **columns: Any) -> int:
    return log.message(turn, step, tool_call_ids=list(call_ids), tool_call_names=["bash"] * len(call_ids), **columns)


def begun(*args: Any, **facts: Any) -> Log:
    log = Log(*args, **facts)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    return log


# Ends


def test_only_closers_make_a_turn_repaired(tmp_path: Path) -> None:
    last, resumed, migrated, forked, aborted = (Log(name) for name in ("a", "b", "c", "d", "e"))
    for log, reason in ((last, "interrupted"), (resumed, "interrupted"), (forked, "forked"), (aborted, "aborted")):
        log.turn(1, reason)
    resumed.event("session/end-seed")
    resumed.turn(2)
    # A migration ends a turn that the next one overtook.
    migrated.turn(1, None)
    migrated.event("agent/inbox/spliced", label="next-turn", inserted_ids=["u"])
    migrated.event("turn/end", 1, reason_kind="interrupted")
    migrated.turn(2)
    found = {
        row["session_id"]: (row["state"], row["is_repaired"])
        for row in turns(tmp_path, last, resumed, migrated, forked, aborted)
        if row["turn"] == 1
    }
    assert found == {
        "a": ("interrupted", True),
        "b": ("interrupted", True),
        "c": ("interrupted", False),
        "d": ("forked", True),
        "e": ("aborted", False),
    }


def test_an_end_tells_its_failure(tmp_path: Path) -> None:
    log = begun()
    failure = {"error_code": "SERVER", "error_message": "busy", "error_status": 503, "error_request_id": "r"}
    log.event("turn/end", 1, reason_kind="error", reason_detail="d", **failure)
    [turn] = turns(tmp_path, log)
    assert {name: turn[name] for name in failure} == failure
    assert turn["reason_detail"] == "d"


def test_a_turn_overtaken_by_the_next_one_is_dangling_and_abandoned(tmp_path: Path) -> None:
    log = begun()
    called(log, "c1")
    log.turn(2)
    first, second = turns(tmp_path, log)
    assert (first["state"], first["is_abandoned"], first["last_phase"], first["end_seq"]) == (
        "dangling",
        True,
        "tools",
        None,
    )
    assert (second["state"], second["is_abandoned"]) == ("completed", False)


def test_numbers_of_turns_may_leave_gaps_and_recur(tmp_path: Path) -> None:
    log = Log()
    log.turn(1)
    log.turn(4, "error")
    log.turn(4)
    found = [(row["turn"], row["state"], row["attempt_count"]) for row in turns(tmp_path, log)]
    assert found == [(1, "completed", 1), (4, "completed", 2)]


# What a turn sums up


def test_cost_and_what_it_lacks(tmp_path: Path) -> None:
    log = Log()
    log.event("turn/start", 1)
    log.event("turn/end", 1, reason_kind="completed")
    log.turn(2, **PRICED)
    log.turn(3)
    log.turn(4, input_tokens=None, output_tokens=None, usage_place=None, **PRICED)
    log.turn(5, input_tokens=None, output_tokens=None, invalid_usage='{"inputTokens":-1}', **PRICED)
    log.event("turn/start", 6)
    log.event("step/start", 6, 1)
    log.message(6, 1, input_tokens=10, output_tokens=2, usage_place="message", **PRICED)
    log.event("step/end", 6, 1)
    log.event("step/start", 6, 2)
    log.message(6, 2, input_tokens=10, output_tokens=2, usage_place="message")
    found = turns(tmp_path, log)
    lacks = [(row["cost"], row["unknown_usage_attempt_count"], row["unpriced_attempt_count"]) for row in found]
    price = Decimal("0.00001056")
    assert lacks == [(0, 0, 0), (price, 0, 0), (None, 0, 1), (None, 1, 0), (None, 1, 0), (price, 0, 1)]
    assert [row["input_tokens"] for row in found] == [0, 10, 10, None, None, 20]


def test_provider_and_model_are_those_of_the_last_attempt(tmp_path: Path) -> None:
    log = begun()
    log.message(**PRICED)
    log.event("step/end", 1, 1)
    log.event("step/start", 1, 2)
    log.message(1, 2, provider="ollama", model="small")
    log.event("turn/start", 2)
    log.event("turn/start", 3)
    log.event("step/start", 3, 1)
    log.message(3, 1, **PRICED)
    log.message(3, 1, provider=None, model=None)
    routes = [(row["provider"], row["model"]) for row in turns(tmp_path, log)]
    assert routes == [("ollama", "small"), (None, None), (None, None)]


def test_tool_columns(tmp_path: Path) -> None:
    log = begun()
    called(log, "c1", "c2")
    log.event("tool/call", 1, 1, call_id="c1", tool_name="bash", time_ms=START_MS)
    log.event("tool/call", 1, 1, call_id="c2", tool_name="bash", time_ms=START_MS + 10)
    log.event("tool/result", 1, 1, call_id="c2", surface_op="append", is_error=True, time_ms=START_MS + 50)
    log.event("tool/result", 1, 1, call_id="c1", surface_op="append", is_error=False, time_ms=START_MS + 40)
    log.turn(2)
    first, second = turns(tmp_path, log)
    assert [first[name] for name in ("tool_call_count", "failed_tool_call_count", "tool_wall_ms")] == [2, 1, 50]
    assert [second[name] for name in ("tool_call_count", "failed_tool_call_count", "tool_wall_ms")] == [0, 0, 0]


# The inbox


def test_a_turn_was_queued_when_its_first_message_was_put_into_the_inbox(tmp_path: Path) -> None:
    log = Log()
    log.event("agent/inbox/spliced", label="next-turn", inserted_ids=["u1"])
    log.event("agent/inbox/spliced", label="next-turn", inserted_ids=["u2"])
    log.event("turn/start", 1)
    log.event("agent/inbox/spliced", label="next-turn", inserted_ids=[])
    log.event("step/start", 1, 1)
    log.event("user/message", message_id="rules", surface_op="append")
    log.event("user/message", message_id="u1", surface_op="append")
    log.event("user/message", message_id="u2", surface_op="append")
    log.event("turn/end", 1, reason_kind="completed")
    log.turn(2)
    first, second = turns(tmp_path, log)
    assert first["queue_ms"] == 2000
    assert first["started_at"] - first["queued_at"] == (first["ended_at"] - first["started_at"]) / 3
    assert (second["queued_at"], second["queue_ms"]) == (None, None)


def test_messages_between_turns_or_from_before_a_fork_queue_no_turn(tmp_path: Path) -> None:
    log = Log("child", inherited_event_count=2)
    log.event("agent/inbox/spliced", label="next-turn", inserted_ids=["u1"])
    log.event("user/message", message_id="u1", surface_op="append")
    log.event("agent/inbox/spliced", label="next-turn", inserted_ids=["u2"])
    log.event("user/message", message_id="u2", surface_op="append")
    log.event("turn/start", 1)
    log.event("user/message", message_id="u1", surface_op="append")
    [turn] = turns(tmp_path, log)
    assert (turn["queued_at"], turn["queue_ms"]) == (None, None)


def test_a_clock_set_back_while_queued_shows(tmp_path: Path) -> None:
    log = Log()
    log.event("agent/inbox/spliced", label="next-turn", inserted_ids=["u1"], time_ms=START_MS + 3_600_000)
    log.event("turn/start", 1, time_ms=START_MS)
    log.event("user/message", message_id="u1", surface_op="append")
    assert turns(tmp_path, log)[0]["queue_ms"] == -3_600_000


# Closers


def closers(folder: Path, *logs: Log) -> list[tuple[Any, ...]]:
    found = rows(built(folder, *logs), "from marts.synthetic_events order by session_id, seq")
    return [(row["seq"], row["type"], row["step"], row["call_id"], row["error_code"]) for row in found]


def test_an_open_turn_is_closed_with_its_calls_and_its_step(tmp_path: Path) -> None:
    log = begun()
    called(log, "c2", "c1", "c0")
    log.event("tool/call", 1, 1, call_id="c1")
    log.event("tool/call", 1, 1, call_id="c0")
    log.event("tool/result", 1, 1, call_id="c0", surface_op="append")
    assert closers(tmp_path, log) == [
        (6, "tool/result", 1, "c2", "TOOL_NOT_STARTED"),
        (7, "tool/result", 1, "c1", "TOOL_OUTCOME_UNKNOWN"),
        (8, "step/end", 1, None, None),
        (9, "turn/end", None, None, None),
    ]


def test_a_turn_between_steps_or_without_one_is_closed_alone(tmp_path: Path) -> None:
    between = begun("between")
    called(between, "c1")
    between.event("step/end", 1, 1)
    empty = Log("empty")
    empty.turn(1)
    empty.event("turn/start", 2)
    streaming = begun("streaming")
    streaming.chunk("text-delta", texts=["a", "b", "c"])
    assert closers(tmp_path, between, empty, streaming) == [
        (4, "turn/end", None, None, None),
        (6, "turn/end", None, None, None),
        (5, "step/end", 1, None, None),
        (6, "turn/end", None, None, None),
    ]


def test_nothing_open_needs_no_closer(tmp_path: Path) -> None:
    ended, none = Log("ended"), Log("none")
    ended.turn(1, None)
    ended.turn(2)
    assert closers(tmp_path, ended, none) == []


@pytest.mark.parametrize(("version", "is_settled"), [(3, True), (4, False)])
def test_since_v4_only_an_appended_result_of_the_step_settles_a_call(
    tmp_path: Path, version: int, is_settled: bool
) -> None:
    log = begun(format_version=version)
    called(log, "c1")
    log.event("tool/result", 1, 1, call_id="c1", surface_op="replace")
    assert [row[1] for row in closers(tmp_path, log)][:-2] == ([] if is_settled else ["tool/result"])


def test_an_id_advertised_again_is_pending_again(tmp_path: Path) -> None:
    log = begun()
    called(log, "c1")
    log.event("tool/call", 1, 1, call_id="c1")
    log.event("tool/result", 1, 1, call_id="c1", surface_op="append")
    called(log, "c1")
    assert closers(tmp_path, log)[0] == (6, "tool/result", 1, "c1", "TOOL_NOT_STARTED")


def test_the_closers_are_those_of_the_harness(official: Official) -> None:
    """Of each log that the harness reads and would resume."""
    resumed = {name: answer["resume"] for name, answer in official.expected.items() if answer.get("resume") is not None}
    expected = {name: [closer(event) for event in resume["closers"]] for name, resume in resumed.items()}
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in expected}
    for row in rows(official.db, "from marts.synthetic_events order by session_id, seq"):
        names = ("seq", "type", "turn", "step", "call_id", "error_code", "call_seq")
        if row["session_id"] in expected:
            found[row["session_id"]].append(tuple(row[name] for name in names))
    assert found == expected
    assert sum(map(bool, expected.values())) > 30


def closer(event: Row) -> tuple[Any, ...]:
    data = event["data"]
    return (
        event["seq"],
        event["type"],
        data["turn"],
        data.get("step"),
        data.get("message", {}).get("source", {}).get("callId"),
        data.get("error", {}).get("code"),
        event.get("sourceEventSeqs", [None])[0],
    )


def test_repaired_turns_are_the_turns_but_for_an_open_last_one(tmp_path: Path) -> None:
    log = begun()
    log.turn(2, "error")
    log.turn(3, None)
    db = built(tmp_path, log)
    plain = rows(db, "from marts.turns order by turn")
    repaired = rows(db, "from marts.turns_repaired order by turn")
    assert [row.pop("is_synthetic") for row in repaired] == [False, False, True]
    assert repaired[:2] == plain[:2], "only the last turn of a session is closed"
    changed = {name: value for name, value in repaired[2].items() if value != plain[2][name]}
    assert changed == {
        "state": "interrupted",
        "reason_kind": "interrupted",
        "ended_at": changed["ended_at"],
        "duration_ms": 2000,
        "is_dangling": False,
        "end_seq": 11,
    }


# Reasons


def test_reasons_are_counted_by_the_day_a_turn_started(tmp_path: Path) -> None:
    midnight = START_MS + 12 * 3_600_000
    log = Log(cwd="/w")
    log.event("turn/start", 1, time_ms=midnight - 1)
    log.event("turn/end", 1, reason_kind="blocked", time_ms=midnight + 1)
    for turn, state in ((2, "completed"), (3, "completed"), (4, "error"), (5, None)):
        log.turn(turn, state, **PRICED)
    found = rows(built(tmp_path, log), "from marts.turn_end_reasons order by model nulls first, state")
    assert [(str(row["day"]), row["model"], row["state"], row["turn_count"], row["share"]) for row in found] == [
        ("2026-08-25", None, "blocked", 1, 1.0),
        ("2026-08-25", "deepseek-v4-pro", "completed", 2, 0.5),
        ("2026-08-25", "deepseek-v4-pro", "dangling", 1, 0.25),
        ("2026-08-25", "deepseek-v4-pro", "error", 1, 0.25),
    ]
    assert {row["project"] for row in found} == {"/w"}


# Overflow and compaction


def compacted(log: Log, turn: int | None, **tokens: int) -> None:
    usage = {"usage_place": "compaction"} | tokens | PRICED
    log.event("compaction/start", turn, related_id=f"k{log.seq}")
    log.event("compaction/summary", related_id=f"k{log.seq - 1}", shadowed_token_count=900, **usage)
    log.event("compaction/end", turn, related_id=f"k{log.seq - 2}")


def test_overflow_recovered_within_its_step(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=9, output_tokens=0)
    log.chunk("finish", finish_kind="error", error_code="CONTEXT_WINDOW_EXCEEDED")
    compacted(log, 1, input_tokens=500, output_tokens=40)
    log.chunk("text-delta", texts=["a", "b", "c"])
    log.message(input_tokens=3, output_tokens=1, usage_place="message", **PRICED)
    log.event("step/end", 1, 1)
    log.event("turn/end", 1, reason_kind="completed")
    [turn] = turns(tmp_path, log)
    counts = [turn[name] for name in ("state", "step_count", "attempt_count", "retry_count", "input_tokens")]
    assert counts == ["completed", 1, 3, 0, 512]


def test_overflow_recovered_by_a_fresh_turn(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=9, output_tokens=0)
    log.chunk("finish", finish_kind="error", error_code="CONTEXT_WINDOW_EXCEEDED")
    log.event("step/end", 1, 1)
    log.event("turn/end", 1, reason_kind="error", error_code="CONTEXT_WINDOW_EXCEEDED")
    compacted(log, None, input_tokens=500, output_tokens=40)
    log.turn(2, input_tokens=3, output_tokens=1, **PRICED)
    db = built(tmp_path, log)
    first, second = rows(db, "from marts.turns order by turn")
    assert (first["state"], first["error_code"], first["attempt_count"], first["input_tokens"]) == (
        "error",
        "CONTEXT_WINDOW_EXCEEDED",
        1,
        9,
    )
    assert (second["state"], second["attempt_count"], second["input_tokens"]) == ("completed", 1, 3)
    [session] = rows(db, "from marts.sessions")
    assert (session["attempt_count"], session["input_tokens"]) == (3, 512), "the compaction is of no turn"


def test_compactions_and_how_they_ended(tmp_path: Path) -> None:
    log = begun()
    compacted(log, 1, input_tokens=5, output_tokens=1)
    log.event("turn/end", 1, reason_kind="completed")
    log.event("compaction/start", related_id="b")
    log.event("compaction/end", related_id="b", outcome="no summary")
    log.event("compaction/start", related_id="c")
    db = built(tmp_path, log)
    done, failed, open_ = rows(db, "from marts.compactions order by compaction")
    assert (done["outcome"], done["turn"], done["duration_ms"], done["shadowed_token_count"]) == ("done", 1, 2000, 900)
    assert done["attempt_id"] == "s1/compaction/1"
    assert (failed["outcome"], failed["error_message"], failed["turn"], failed["attempt_id"]) == (
        "failed",
        "no summary",
        None,
        None,
    )
    assert (open_["outcome"], open_["ended_at"], open_["duration_ms"], open_["compaction_id"]) == (
        "open",
        None,
        None,
        "c",
    )
    assert rows(db, "from marts.turns")[0]["last_phase"] is None


# Cases from public reports


def states(query: Query, table: str = "turns") -> dict[str, int]:
    found = query(f"select state, count(*) as n from marts.{table} where not is_dangling group by all")
    return {row["state"]: row["n"] for row in found}


def test_a_retried_request_is_one_step(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S01")
    assert states(query) == expected["turn_end"]
    [sums] = query(
        "select count(*) as turns, sum(step_count)::bigint as steps, sum(attempt_count)::bigint as attempts, "
        "sum(retry_count)::bigint as retries, sum(input_tokens)::bigint as input_tokens, "
        "sum(output_tokens)::bigint as output_tokens from marts.turns"
    )
    assert sums == {name: expected[name] for name in sums}


def test_an_empty_message_at_the_output_limit_is_paid_for(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S08")
    assert states(query) == expected["turn_end"]
    [sums] = query(
        "select count(*) as turns, sum(step_count)::bigint as steps, sum(input_tokens)::bigint as input_tokens, "
        "sum(output_tokens)::bigint as output_tokens, "
        "sum(empty_max_tokens_count)::bigint as empty_max_tokens_messages from marts.turns"
    )
    assert sums == {name: expected[name] for name in sums}
    [day] = query("from marts.usage_daily")
    assert (day["empty_max_tokens_input_tokens"], day["empty_max_tokens_output_tokens"]) == (4000, 2048)
    assert day["empty_max_tokens_total_tokens"] == 6048
    assert day["empty_max_tokens_cost"] == Decimal("0.00669504")
    assert day["empty_max_tokens_cost"] < day["cost"]


def test_a_dangling_turn_and_its_repair(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S09")
    assert states(query) == expected["turn_end"]
    [dangling] = query("from marts.turns where is_dangling")
    assert (dangling["turn"], dangling["last_phase"], dangling["is_abandoned"]) == (2, "tools", False)
    assert states(query, "turns_repaired") == expected["repaired_view"]["turn_end"]
    closers = query("from marts.synthetic_events order by seq")
    assert [row["type"] for row in closers] == expected["repaired_view"]["synthetic_events"]
    codes = {row["call_id"]: row["error_code"] for row in closers if row["call_id"]}
    assert codes == expected["repaired_view"]["error_codes"]
    [last] = query('select max("at") as last_at from raw.events')
    assert {row["event_at"] for row in closers} == {last["last_at"]}
    [sums] = query(
        "select count(*) as turns, sum(input_tokens)::bigint as input_tokens, "
        "sum(output_tokens)::bigint as output_tokens from marts.turns"
    )
    assert sums == {name: expected[name] for name in sums}


def test_a_compaction_is_spend_of_no_turn(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S12")
    kinds = query("select kind, sum(attempt_count)::bigint as n from marts.usage_daily group by all")
    assert {row["kind"]: row["n"] for row in kinds} == {
        "model": expected["calls_by_purpose"]["turn"],
        "compaction": expected["calls_by_purpose"]["compaction"],
    }
    models = query(
        "select model, sum(input_tokens)::bigint as i, sum(output_tokens)::bigint as o "
        "from marts.usage_daily group by all"
    )
    assert {row["model"]: {"input": row["i"], "output": row["o"]} for row in models} == expected["by_model"]
    [session] = query("from marts.sessions")
    assert {name: session[name] for name in ("input_tokens", "output_tokens")} == {
        name: expected[name] for name in ("input_tokens", "output_tokens")
    }
    assert session["turn_count"] == expected["turns"]
    [compaction] = query("from marts.compactions")
    assert (compaction["outcome"], compaction["turn"], compaction["shadowed_token_count"]) == ("done", None, 12)
