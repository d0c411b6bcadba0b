"""Tool calls: how blocks, starts and results find each other, how calls end, how long they took."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakes import START_MS, Log, Row, built, rows
from turnlake.api import connect
from turnlake.cli import main
from turnlake.models.folder import sql_folder

NEEDED = tuple(f"intermediate/{name}.sql" for name in ("approvals", "boundaries", "overridden_events"))
ORDER = "order by session_id, turn, step, coalesce(call_seq, result_seq), call_id, ordinal"


def begun(*args: Any, **facts: Any) -> Log:
    log = Log(*args, **facts)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    return log


def asks(log: Log, *call_ids: str, tool: str = "bash", turn: int = 1, step: int = 1, **columns: Any) -> int:
    """A message with a tool-call block for each id."""
    return log.message(turn, step, tool_call_ids=list(call_ids), tool_call_names=[tool] * len(call_ids), **columns)


def start(log: Log, call_id: str, tool: str = "bash", turn: int = 1, step: int = 1, **columns: Any) -> int:
    facts = {"call_id": call_id, "tool_name": tool, "arguments": "{}", "arguments_is_json": True}
    return log.event("tool/call", turn, step, **(facts | columns))


def result(log: Log, call_id: str | None, turn: int = 1, step: int = 1, **columns: Any) -> int:
    defaults = {"surface_op": "append", "is_error": False, "content_chars": 4}
    return log.event("tool/result", turn, step, call_id=call_id, **(defaults | columns))


def called(log: Log, call_id: str = "c", **columns: Any) -> None:
    """A whole round trip of one second; the columns are those of the result."""
    asks(log, call_id)
    start(log, call_id)
    result(log, call_id, **columns)


def approval(log: Log, outcome: str | None = "allowed-once", wait_ms: int = 0, **columns: Any) -> None:
    """A question, and unless `outcome` is None its answer `wait_ms` later."""
    approval_id = f"a{log.seq}"
    log.event("approval/asked", related_id=approval_id, **({"tool_name": "bash"} | columns))
    if outcome:
        asked_ms = log.events[-1]["time_ms"]
        log.event("approval/decided", related_id=approval_id, outcome=outcome, time_ms=asked_ms + wait_ms)


def dispatch(log: Log, call_id: str, is_error: bool | None = False, tool: str = "read", parent: str = "c") -> None:
    """A nested call; `is_error` None leaves it open."""
    facts = {"call_id": call_id, "parent_call_id": parent, "tool_name": tool, "arguments": "{}"}
    facts |= {"arguments_is_json": True}
    log.event("tool/ptc-dispatch-start", **facts)
    if is_error is not None:
        log.event("tool/ptc-dispatch", **facts, is_error=is_error)


def built_tools(folder: Path, *logs: Log) -> duckdb.DuckDBPyConnection:
    """A database of the models about tools alone, which takes a quarter of the time."""
    root, wanted = folder / "sql", ("macros/*", "staging/*", "intermediate/*tool*", "marts/tool*", *NEEDED)
    for path in (path for pattern in wanted for path in sql_folder().glob(pattern)):
        place = root / path.relative_to(sql_folder())
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return built(folder, *logs, root=root)


def calls(folder: Path, *logs: Log) -> list[Row]:
    return rows(built_tools(folder, *logs), f"from marts.tool_calls {ORDER}")


def only(folder: Path, log: Log) -> Row:
    (call,) = calls(folder, log)
    return call


# Pairing


def test_a_block_its_start_and_its_result_are_one_call(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c1", tool="read")
    call_seq = start(log, "c1", tool="read", arguments='{"path":"a"}')
    result_seq = result(log, "c1", content_chars=12)
    call = only(tmp_path, log)
    assert (call["turn"], call["step"], call["call_id"], call["ordinal"]) == (1, 1, "c1", 1)
    assert (call["tool_name"], call["arguments"], call["arguments_is_json"]) == ("read", '{"path":"a"}', True)
    assert (call["call_seq"], call["result_seq"], call["result_chars"]) == (call_seq, result_seq, 12)
    assert (call["called_at"].timestamp() * 1000, call["wall_ms"]) == (START_MS + 5000, 1000)
    assert (call["outcome"], call["approval_wait_ms"], call["exec_ms"]) == ("ok", 0, 1000)
    assert not (call["is_nested"] or call["is_parallel"] or call["is_clock_skewed"])


def test_results_may_come_in_any_order(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c1", "c2")
    start(log, "c1")
    start(log, "c2")
    result(log, "c2")
    result(log, "c1")
    assert [(call["call_id"], call["wall_ms"]) for call in calls(tmp_path, log)] == [("c1", 3000), ("c2", 1000)]


@pytest.mark.parametrize("call_id", ["", "again"])
def test_an_id_that_is_empty_or_recurs_pairs_by_order(tmp_path: Path, call_id: str) -> None:
    log = begun()
    asks(log, call_id, call_id, call_id)
    for _ in range(2):
        start(log, call_id)
    result(log, call_id)
    found = calls(tmp_path, log)
    assert [(call["ordinal"], call["call_seq"], call["result_seq"]) for call in found] == [
        (1, 3, 5),
        (2, 4, None),
        (3, None, None),
    ]


def test_an_id_may_recur_in_another_step(tmp_path: Path) -> None:
    log = begun()
    called(log)
    log.event("step/end", 1, 1)
    log.event("step/start", 1, 2)
    asks(log, "c", step=2)
    start(log, "c", step=2)
    first, second = calls(tmp_path, log)
    assert (first["step"], first["outcome"], first["ordinal"]) == (1, "ok", 1)
    assert (second["step"], second["outcome"], second["ordinal"]) == (2, "open", 1)


def test_a_start_or_a_result_without_a_block_is_a_call(tmp_path: Path) -> None:
    log = begun()
    start(log, "no-block")
    result(log, "no-start", is_error=True)
    result(log, None)
    unblocked, unstarted, nameless = calls(tmp_path, log)
    assert (unblocked["call_id"], unblocked["outcome"], unblocked["tool_name"]) == ("no-block", "open", "bash")
    assert (unstarted["call_id"], unstarted["outcome"], unstarted["wall_ms"]) == ("no-start", "error", None)
    assert unstarted["tool_name"] is unstarted["arguments"] is unstarted["arguments_is_json"] is None
    assert (nameless["call_id"], nameless["outcome"]) == ("", "ok")


def test_a_replacement_or_a_second_result_changes_nothing(tmp_path: Path) -> None:
    log = begun()
    called(log, content_chars=9000)
    result(log, "c", surface_op="replace", replace_start_seq=4, replace_end_seq=4, content_chars=5)
    result(log, "c", is_error=True)
    call = only(tmp_path, log)
    assert (call["result_seq"], call["result_chars"], call["outcome"]) == (4, 9000, "ok")


def test_calls_of_the_parent_are_not_counted_again(tmp_path: Path) -> None:
    log = Log(inherited_event_count=7)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    called(log, "theirs")
    asks(log, "cut")
    start(log, "cut")
    result(log, "cut", is_error=True, error_code="TOOL_OUTCOME_UNKNOWN")
    log.event("step/end", 1, 1)
    log.event("turn/end", 1, reason_kind="forked")
    log.event("turn/start", 2)
    log.event("step/start", 2, 1)
    asks(log, "cut", turn=2)
    assert [(call["turn"], call["call_id"], call["outcome"]) for call in calls(tmp_path, log)] == [(2, "cut", "open")]


def test_the_later_of_two_writers_tells_what_happened(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c")
    start(log, "c")
    result(log, "c", is_error=True)
    log.back_to(4)
    log.event("todo/write")
    result(log, "c")
    call = only(tmp_path, log)
    assert (call["result_seq"], call["outcome"]) == (5, "ok")


# Arguments


def test_arguments_of_a_call_that_never_started_come_from_its_message(tmp_path: Path) -> None:
    log = begun()
    texts = ['{"n":9007199254740993}', "{}", "no json", ""]
    asks(log, "c0", "c1", "c2", "c3", tool_call_arguments=texts)
    start(log, "c1", arguments='{"as":"started"}')
    found = {call["call_id"]: (call["arguments"], call["arguments_is_json"]) for call in calls(tmp_path, log)}
    assert found == {
        "c0": ('{"n":9007199254740993}', True),
        "c1": ('{"as":"started"}', True),
        "c2": ("no json", False),
        "c3": ("", False),
    }


@pytest.mark.parametrize("told", [None, [], ["{}"]])
def test_arguments_that_no_block_tells_are_unknown(tmp_path: Path, told: list[str] | None) -> None:
    log = begun()
    asks(log, "told", "untold", tool_call_arguments=told)
    call = calls(tmp_path, log)[1]
    assert (call["call_id"], call["arguments"], call["arguments_is_json"]) == ("untold", None, None)


# Outcomes


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [
        ({}, "ok"),
        ({"is_error": True}, "error"),
        ({"is_error": True, "error_name": "FsError", "error_code": "FS_SANDBOX_DENIED"}, "error"),
        ({"is_error": True, "error_code": "TOOL_NOT_STARTED"}, "not_started"),
        ({"is_error": True, "error_code": "TOOL_OUTCOME_UNKNOWN"}, "unknown"),
        ({"is_error": True, "error_code": "ABORTED_BEFORE_DISPATCH"}, "aborted"),
        ({"is_error": True, "error_name": "AbortError"}, "aborted"),
    ],
)
def test_how_a_call_ended(tmp_path: Path, columns: Row, outcome: str) -> None:
    log = begun()
    called(log, **columns)
    call = only(tmp_path, log)
    assert call["outcome"] == outcome
    assert (call["error_name"], call["error_code"]) == (columns.get("error_name"), columns.get("error_code"))


@pytest.mark.parametrize(
    ("decisions", "is_error", "outcome"),
    [
        (["allowed-once"], False, "ok"),
        (["allowed-once"], True, "error"),
        (["rejected"], True, "denied"),
        (["unavailable"], True, "denied"),
        (["cancelled"], True, "aborted"),
        (["allowed-once", "rejected"], True, "denied"),
        (["cancelled", "rejected"], True, "denied"),
    ],
)
def test_what_people_decided_tells_how_a_call_ended(
    tmp_path: Path, decisions: list[str], is_error: bool, outcome: str
) -> None:
    log = begun()
    asks(log, "c")
    start(log, "c")
    for decision in decisions:
        approval(log, decision, call_id="c")
    result(log, "c", is_error=is_error)
    assert only(tmp_path, log)["outcome"] == outcome


def test_a_call_without_result_is_open_started_or_not(tmp_path: Path) -> None:
    log = begun()
    asks(log, "started", "waiting")
    start(log, "started")
    approval(log, "rejected", call_id="started")
    started, waiting = calls(tmp_path, log)
    assert (started["outcome"], started["call_seq"], started["exec_ms"]) == ("open", 3, None)
    assert (waiting["outcome"], waiting["call_seq"], waiting["called_at"]) == ("open", None, None)


# Waiting for people


def test_waiting_is_the_union_of_what_was_asked(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c")
    start(log, "c", time_ms=START_MS)
    for n, (asked, decided) in enumerate([(1000, 3000), (2000, 4000), (6000, 7000), (9000, 60000)]):
        log.event("approval/asked", related_id=f"p{n}", tool_name="bash", call_id="c", time_ms=START_MS + asked)
        log.event("approval/decided", related_id=f"p{n}", outcome="allowed-once", time_ms=START_MS + decided)
    result(log, "c", time_ms=START_MS + 10000)
    call = only(tmp_path, log)
    assert (call["wall_ms"], call["approval_wait_ms"], call["exec_ms"]) == (10000, 3000 + 1000 + 1000, 5000)


def test_while_undecided_nobody_knows_how_long_the_tool_took(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c")
    start(log, "c")
    approval(log, None, call_id="c")
    result(log, "c", is_error=True, error_code="TOOL_OUTCOME_UNKNOWN")
    call = only(tmp_path, log)
    assert (call["wall_ms"], call["approval_wait_ms"], call["exec_ms"]) == (2000, None, None)
    assert call["outcome"] == "unknown"


def test_an_approval_without_an_id_is_that_of_the_only_open_call_of_its_tool(tmp_path: Path) -> None:
    log = begun()
    asks(log, "done", "b", "r")
    start(log, "done")
    result(log, "done")
    start(log, "b")
    start(log, "r", tool="read")
    approval(log, "allowed-once", 500)
    result(log, "b")
    result(log, "r")
    assert {call["call_id"]: call["approval_wait_ms"] for call in calls(tmp_path, log)} == {"done": 0, "b": 500, "r": 0}


def test_an_approval_that_fits_several_calls_is_that_of_none(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c1", "c2")
    start(log, "c1")
    start(log, "c2")
    approval(log, "rejected", 500)
    approval(log, "rejected", 500, call_id="nobody")
    result(log, "c1", is_error=True)
    db = built_tools(tmp_path, log)
    assert {row["approval_wait_ms"] for row in rows(db, "from marts.tool_calls")} == {0}
    assert [row["is_matched"] for row in rows(db, "from intermediate.approvals")] == [False, False]


def test_an_approval_of_no_call_is_a_finding(tmp_path: Path) -> None:
    log = begun()
    called(log)
    log.finding("clock_went_back", line=2)
    seqs = [log.seq, log.seq + 2]
    approval(log, "rejected")
    approval(log, "rejected", tool_name=None, call_id="nobody")
    found = rows(built(tmp_path, log), "from marts.findings where code = 'approval_unmatched' order by seq")
    assert [(row["seq"], row["ordinal"], row["severity"], row["line_count"]) for row in found] == [
        (seqs[0], 2, "warning", 1),
        (seqs[1], 3, "warning", 1),
    ]
    assert ["bash" in row["detail"] for row in found] == [True, False]


def test_an_approval_is_that_of_the_call_that_runs(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c", "c")
    start(log, "c")
    result(log, "c")
    start(log, "c")
    approval(log, "rejected", 500, call_id="c")
    result(log, "c", is_error=True)
    assert [call["outcome"] for call in calls(tmp_path, log)] == ["ok", "denied"]


# Clocks


def test_a_clock_set_back_leaves_a_flag_and_no_percentile(tmp_path: Path) -> None:
    log = begun()
    called(log, "c1")
    asks(log, "c2")
    start(log, "c2")
    result(log, "c2", time_ms=START_MS)
    asks(log, "c3")
    start(log, "c3")
    approval(log, "allowed-once", -5000, call_id="c3")
    result(log, "c3")
    db = built(tmp_path, log)
    found = rows(db, f"from marts.tool_calls {ORDER}")
    assert [call["is_clock_skewed"] for call in found] == [False, True, True]
    assert found[1]["wall_ms"] < 0
    (latency,) = rows(db, "from marts.tool_latency")
    assert (latency["call_count"], latency["measured_count"], latency["max_ms"]) == (3, 1, 1000)
    (turn,) = rows(db, "from marts.turns")
    assert turn["tool_wall_ms"] == 1000 + 3000


# Nested calls and subagents


def test_nested_calls_count_under_their_own_name_only(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c", tool="run_code")
    start(log, "c", tool="run_code")
    dispatch(log, "c:code:1")
    dispatch(log, "c:code:2", is_error=True)
    dispatch(log, "c:code:3", is_error=None)
    result(log, "c")
    db = built(tmp_path, log)
    nested = rows(db, f"from marts.tool_calls where is_nested {ORDER}")
    assert [(row["call_id"], row["outcome"], row["wall_ms"]) for row in nested] == [
        ("c:code:1", "ok", 1000),
        ("c:code:2", "error", 1000),
        ("c:code:3", "open", None),
    ]
    told = {(row["turn"], row["step"], row["parent_call_id"], row["arguments"]) for row in nested}
    assert told == {(1, 1, "c", "{}")}
    latency = {row["tool_name"]: row for row in rows(db, "from marts.tool_latency")}
    assert (latency["run_code"]["call_count"], latency["read"]["call_count"]) == (1, 3)
    (turn,), (step,) = rows(db, "from marts.turns"), rows(db, "from marts.steps")
    assert turn["tool_call_count"] == step["tool_call_count"] == step["max_parallel_tool_calls"] == 1
    assert turn["tool_wall_ms"] == step["tool_wall_ms"] == 6000
    (session,) = rows(db, "from marts.sessions")
    assert session["tool_call_count"] == 1


def test_a_nested_call_may_have_the_id_of_another(tmp_path: Path) -> None:
    log = begun()
    called(log)
    asks(log, "c")
    dispatch(log, "c")
    dispatch(log, "c")
    assert sorted((call["is_nested"], call["ordinal"]) for call in calls(tmp_path, log)) == [
        (False, 1),
        (False, 2),
        (True, 3),
        (True, 4),
    ]


def test_a_subagent_is_that_of_the_only_call_that_ran(tmp_path: Path) -> None:
    log = begun(format_version=3)
    asks(log, "c1", "c2", "c3", tool="subagent")
    start(log, "c1", tool="subagent")
    log.event("subagent/catalog", child_id="kid")
    log.event("subagent/catalog", child_id="its-sister")
    result(log, "c1")
    start(log, "c2", tool="subagent")
    start(log, "c3", tool="subagent")
    log.event("subagent/catalog", child_id="whose")
    result(log, "c2")
    result(log, "c3")
    log.event("subagent/catalog", child_id="late")
    assert [call["spawned_session_id"] for call in calls(tmp_path, log)] == ["kid", None, None]


# Parallel calls, and time


def test_calls_are_parallel_by_their_order_in_the_log(tmp_path: Path) -> None:
    log = begun()
    asks(log, "c1", "c2", "c3", "c4")
    start(log, "c1", time_ms=START_MS)
    start(log, "c2", time_ms=START_MS + 1000)
    result(log, "c2", time_ms=START_MS + 3000)
    result(log, "c1", time_ms=START_MS + 4000)
    start(log, "c3", time_ms=START_MS + 4000)
    result(log, "c3", time_ms=START_MS + 5000)
    start(log, "c4", time_ms=START_MS + 9000)
    db = built(tmp_path, log)
    found = rows(db, f"from marts.tool_calls {ORDER}")
    assert [call["is_parallel"] for call in found] == [True, True, False, False]
    (step,) = rows(db, "from marts.steps")
    assert (step["tool_call_count"], step["max_parallel_tool_calls"], step["tool_wall_ms"]) == (4, 2, 5000)


def test_latency_is_by_nearest_rank(tmp_path: Path) -> None:
    log = begun()
    for n in range(1, 21):
        asks(log, f"c{n}")
        start(log, f"c{n}", time_ms=START_MS)
        result(log, f"c{n}", time_ms=START_MS + n, is_error=n > 15)
    start(log, "open")
    start(log, "other", tool="read")
    db = built_tools(tmp_path, log)
    bash, read = rows(db, "from marts.tool_latency order by tool_name")
    assert [bash[name] for name in ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")] == [10, 18, 19, 20, 20]
    assert [bash[name] for name in ("call_count", "measured_count", "open_count", "error_count")] == [21, 20, 1, 5]
    assert bash["error_ratio"] == pytest.approx(5 / 21)
    assert (read["call_count"], read["measured_count"], read["p50_ms"]) == (1, 0, None)


# Against a plain count


class Drawn:
    """A step of drawn events, and the calls that a plain reading of rules makes of them."""

    def __init__(self, log: Log, step: int) -> None:
        self.log, self.step = log, step
        self.parts: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))

    def play(self, word: str, call_id: str, time_ms: int) -> None:
        part = self.parts[call_id]
        if word == "start" and len(part["result"]) > len(part["start"]):
            return  # No call starts behind its own result.
        facts = {"turn": 1, "step": self.step, "time_ms": START_MS + time_ms}
        if word == "block":
            seq = asks(self.log, call_id, **facts)
        else:
            seq = {"start": start, "result": result}[word](self.log, call_id, **facts)
        part[word].append((seq, time_ms))

    def expected(self) -> Iterator[tuple[Any, ...]]:
        for call_id, part in self.parts.items():
            known = max(len(part["block"]), len(part["start"]))
            count = max(known, len(part["result"]) if call_id == "" else min(len(part["result"]), known or 1))
            for n in range(count):
                begun_at, ended_at = (dict(enumerate(part[word])).get(n, (None, None)) for word in ("start", "result"))
                wall = None if None in (begun_at[1], ended_at[1]) else ended_at[1] - begun_at[1]
                yield self.step, call_id, n + 1, begun_at[0], ended_at[0], wall


PLAYED = st.tuples(st.sampled_from(["block", "start", "result"]), st.sampled_from(["", "a", "b"]), st.integers(0, 20))


# Few examples of many steps each: building the database is what takes time. Nothing is made smaller for that reason.
@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(st.lists(PLAYED, max_size=12), min_size=12, max_size=40))
def test_pairs_and_times_are_those_of_a_plain_count(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[list[tuple[str, str, int]]]
) -> None:
    log = Log()
    log.event("turn/start", 1)
    steps = []
    for number, events in enumerate(drawn, start=1):
        log.event("step/start", 1, number)
        steps.append(Drawn(log, number))
        for event in events:
            steps[-1].play(*event)
        log.event("step/end", 1, number)
    with built_tools(tmp_path_factory.mktemp("drawn"), log) as db:
        found = rows(db, "from marts.tool_calls")
        sums = {row["step"]: row for row in rows(db, "from intermediate.tool_step_sums")}
    names = ("step", "call_id", "ordinal", "call_seq", "result_seq", "wall_ms")
    expected = [row for step in steps for row in step.expected()]
    told = [tuple(call[name] for name in names) for call in found]
    assert sorted(told, key=str) == sorted(expected, key=str)
    assert set(sums) == {call["step"] for call in found}
    for step, row in sums.items():
        here = [call for call in found if call["step"] == step]
        assert row["tool_wall_ms"] == length_of_union(here)
        assert row["max_parallel_tool_calls"] == most_at_once(here)


def length_of_union(found: list[Row]) -> int | None:
    """Milliseconds in which some call ran; None where no call tells."""
    ended = [call for call in found if call["wall_ms"] is not None and call["wall_ms"] >= 0]
    spans = [[int(call[name].timestamp() * 1000) for name in ("called_at", "result_at")] for call in ended]
    return len({ms for span in spans for ms in range(*span)}) if ended else None


def most_at_once(found: list[Row]) -> int:
    """The most calls that had started and not ended, looked at right after each start."""
    begun_at = [(call["call_seq"], call["result_seq"]) for call in found if call["call_seq"] is not None]
    running = [sum(a <= seq and (z is None or z > seq) for a, z in begun_at) for seq, _ in begun_at]
    return max(running, default=0)


# Cases


Case = tuple[Row, duckdb.DuckDBPyConnection]


@pytest.fixture
def case(cases: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Case]:
    """The case named: what it expects, and its lake."""
    name = request.param
    assert main(["build", str(cases / name), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    with connect(tmp_path / "lake") as db:
        yield json.loads((cases / name / "expected.json").read_text()), db


@pytest.mark.parametrize("case", ["S09"], indirect=True)
def test_a_dangling_turn(case: Case) -> None:
    expected, db = case
    first, second = rows(db, "from marts.tool_calls order by call_id")
    assert first["arguments"] == expected["arguments_text_c1"]
    assert (second["arguments"], second["call_seq"]) == ("{}", None)
    assert [first["outcome"], second["outcome"]] == ["open"] * expected["open_tool_calls"]
    [latency] = rows(db, "from marts.tool_latency")
    assert latency["measured_count"] == expected["tool_calls_with_a_latency"]


@pytest.mark.parametrize("case", ["S10"], indirect=True)
def test_waiting_for_a_person_is_no_latency(case: Case) -> None:
    expected, db = case
    found = {row["call_id"]: row for row in rows(db, "from marts.tool_calls")}
    assert len(found) == expected["tool_calls"]
    for call_id in found:
        assert {name: found[call_id][name] for name in expected[call_id]} == expected[call_id]
    [step] = rows(db, "from marts.steps")
    assert step["max_parallel_tool_calls"] == expected["max_concurrency"]
