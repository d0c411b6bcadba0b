"""The state machine over a log: each statement has a smallest log that breaks it, and logs that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from logs import VERSIONS, Session, faults, read, text
from turnlake.findings import Finding
from turnlake.format.records import EventLine
from turnlake.format.rules import LogState, judge_event
from turnlake.format.rules.surface import span_of
from turnlake.messages.log import Log

Act = Callable[[Session], Any]


def found(log: Log, code: str) -> Finding:
    return next(finding for finding in log.findings if finding.code == code)


def session_after(version: int, act: Act) -> Session:
    """An open step in which act was done."""
    session = Session(version).open_step()
    act(session)
    return session


def read_after(version: int, act: Act) -> Log:
    """The log of an open step in which act was done."""
    return read(session_after(version, act))


def replace(version: int, first: Any, last: Any) -> dict[str, Any]:
    names = ("start", "end") if version < 3 else ("startSeq", "endSeq")
    return {"op": "replace", names[0]: first, names[1]: last}


def replacing_user(first: int, last: int, sources: Iterable[int]) -> Act:
    return lambda s: s.user(surfaceOp=replace(s.version, first, last), sourceEventSeqs=list(sources))


def called(session: Session, act: Act = lambda s: None) -> Any:
    """A message with a call, the call, and what is done then."""
    session.assistant("", [("c1", "bash", "{}")])
    session.call()
    act(session)


def result(*, error: Any = None, is_error: bool | None = None, **message: Any) -> Act:
    """A result of a call whose message has these members."""

    def act(session: Session) -> None:
        block: dict[str, Any] = {} if is_error is None else {"isError": is_error}
        data = session.place | {"message": session.result_message(**block) | message}
        session.add("tool/result", data if error is None else data | {"error": error}, surfaceOp="append")

    return lambda session: called(session, act)


def pruned(*, words: str = "short", sources: bool = True, data: dict[str, Any] | None = None) -> Act:
    """A result of a call, replaced by one with other content; data joins the event's data."""

    def act(session: Session) -> None:
        called(session, lambda s: s.result())
        seq = session.seq - 1
        message = session.result_message(words=words) | {"id": f"r{seq}"}
        members = {"sourceEventSeqs": [seq]} if sources else {}
        op = replace(session.version, seq, seq)
        session.add("tool/result", session.place | {"message": message} | (data or {}), surfaceOp=op, **members)

    return act


def request_header(reason: str = "initial", **header: Any) -> Act:
    config = {"provider": "deepseek-official", "model": "deepseek-v4-pro"}
    return lambda s: s.add("request/header", {"reason": reason, "header": {"config": config} | header})


def message_without(key: str) -> Act:
    message = {"id": "m", "role": "user", "content": [], "source": {"kind": "user"}}
    return lambda s: s.add("user/message", {k: v for k, v in message.items() if k != key}, surfaceOp="append")


def place_of(turn: int, step: int) -> Act:
    return lambda s: s.add("tool/call", {"turn": turn, "step": step, "callId": "c", "name": "n", "arguments": ""})


def bracket(*types: str, **data: Any) -> Act:
    """Brackets that name the open turn and step unless data says otherwise."""

    def act(session: Session) -> None:
        for type_ in types:
            place = session.place if type_.startswith("step") else {"turn": session.turn_number}
            reason = {"reason": {"kind": "completed"}} if type_ == "turn/end" else {}
            session.add(type_, place | reason | data)

    return act


def developer(block_type: str, tools: Iterable[str] | None = None, **data: Any) -> Act:
    """A request header that defines these tools, and a developer message with one block about the tool t."""

    def act(session: Session) -> None:
        if tools is not None:
            request_header(tools=[{"name": name} for name in tools])(session)
        message = {"id": "d", "role": "developer", "content": [{"type": block_type, "toolName": "t"}]}
        session.add("developer/message", session.place | {"message": message} | data, surfaceOp="append")

    return act


def compacted(shadowed: list[int]) -> Act:
    """A compaction that replaces the user message, seq 2, and whose summary names these."""

    def act(session: Session) -> None:
        session.add("compaction/start", {"compactionId": "k", "turn": 1})
        session.add("compaction/summary", {"compactionId": "k", "shadowedSeqs": shadowed})
        source = {"kind": "compact" if session.version >= 4 else "plugin", "compactionId": "k"}
        data = {"id": "k", "role": "user", "content": [], "source": source}
        op = replace(session.version, 2, 2)
        session.add("user/message", data, surfaceOp=op, sourceEventSeqs=[3, 4, 2])
        session.add("compaction/end", {"compactionId": "k", "turn": 1})

    return act


ENDED = bracket("step/end", "turn/end")

BREACHES: list[tuple[str, tuple[int, ...], str, str, Act]] = [
    ("INV-03", VERSIONS, "refused", "invalid_payload", lambda s: s.add("request/header", {"reason": "initial"})),
    ("INV-03", VERSIONS, "refused", "invalid_payload", message_without("id")),
    ("INV-06", VERSIONS, "refused", "invariant", replacing_user(0, 0, [0])),
    ("INV-06", VERSIONS, "refused", "invariant", replacing_user(2, 1, [1, 2])),
    ("INV-08", VERSIONS, "refused", "invariant", replacing_user(2, 2, [1])),
    ("INV-08", VERSIONS, "refused", "invariant", pruned(sources=False)),
    ("INV-09", VERSIONS, "refused", "invariant", pruned(data={"meta": 1})),
    ("INV-10", VERSIONS, "refused", "invariant", bracket("step/end", "turn/start", turn=2)),
    ("INV-10", VERSIONS, "refused", "invariant", bracket("step/end", "turn/end", turn=7, step=1)),
    ("INV-11", VERSIONS, "refused", "invariant", lambda s: (ENDED(s), bracket("turn/start", turn=3)(s))),
    ("INV-12", VERSIONS, "refused", "invariant", bracket("step/start", step=2)),
    ("INV-12", VERSIONS, "refused", "invariant", lambda s: (s.step_end(), bracket("step/start", step=3)(s))),
    ("INV-12", VERSIONS, "refused", "invariant", bracket("step/end", step=2)),
    ("INV-12", VERSIONS, "refused", "invariant", bracket("step/end", "turn/end", "step/start")),
    ("INV-13", VERSIONS, "refused", "invariant", bracket("turn/end")),
    ("INV-14", VERSIONS, "refused", "invariant", place_of(1, 2)),
    ("INV-14", VERSIONS, "refused", "invariant", place_of(2, 1)),
    ("INV-14", (0, 1), "clean", "", lambda s: s.add("assistant/chunk", {"turn": 1, "step": 2, "chunk": {"type": "x"}})),
    ("INV-15", VERSIONS, "clean", "", lambda s: _prune_behind_the_turn(s)),
    ("INV-17", VERSIONS, "clean", "", lambda s: s.call()),
    ("INV-17", VERSIONS, "clean", "", lambda s: (s.assistant("", [("c1", "bash", "{}")]), s.call(arguments="{ }"))),
    ("INV-18", VERSIONS, "refused", "invariant", lambda s: s.result()),
    ("INV-18", VERSIONS, "refused", "invariant", lambda s: (called(s, lambda s: s.result()), s.result())),
    ("INV-19", VERSIONS, "clean", "", lambda s: called(s, lambda s: s.call())),
    ("INV-20", VERSIONS, "clean", "", lambda s: called(s, lambda s: s.result(sourceEventSeqs=[0]))),
    ("INV-21", VERSIONS, "clean", "", lambda s: called(s, lambda s: s.step_end())),
    ("INV-22", VERSIONS, "refused", "invalid_payload", result(source={"kind": "tool", "callId": "other"})),
    ("INV-22", VERSIONS, "refused", "invalid_payload", result(source=None)),
    ("INV-23", (0, 1, 2), "clean", "", result(error={"code": "E"})),
    ("INV-23", (3, 4), "removable_tail", "invariant", result(error={"code": "E"})),
    ("INV-24", VERSIONS, "refused", "invalid_payload", result(role="assistant")),
    ("INV-24", (0, 1, 2, 3), "refused", "invalid_payload", result(content=[])),
    ("INV-24", (0, 1, 2, 3), "refused", "invalid_payload", result(content="words")),
    ("INV-24", (4,), "refused", "retired_syntax", result(content=[{"type": "tool-result"}])),
    ("INV-24", VERSIONS, "refused", "invalid_payload", message_without("role")),
    ("INV-25", (0, 1), "refused", "invariant", lambda s: s.assistant(sourceEventSeqs=[0])),
    ("INV-25", (0, 1), "refused", "invariant", lambda s: s.assistant(sourceEventSeqs=[4, 3])),
    ("INV-29", (2, 3, 4), "clean", "", lambda s: (ENDED(s), request_header()(s))),
    ("INV-31", (3, 4), "refused", "retired_syntax", request_header(system="S")),
    ("INV-31", (3, 4), "removable_tail", "invalid_event", request_header(tools=[])),
    ("INV-31", (3, 4), "removable_tail", "invalid_event", request_header(adapterDefaults={})),
    ("INV-32", (3, 4), "refused", "invariant", lambda s: s.system()),
    ("INV-33", (4,), "refused", "invariant", developer("tool-addition")),
    ("INV-33", (4,), "refused", "invariant", developer("tool-addition", ["t"], headerSeq=2)),
    ("INV-33", (4,), "refused", "invariant", developer("tool-addition", ["u"], headerSeq=3)),
    ("INV-33", (4,), "refused", "invariant", developer("tool-addition", ["t", "t"], headerSeq=3)),
    ("INV-33", (4,), "refused", "invariant", developer("tool-removal", ["t"], headerSeq=3)),
    ("INV-36", (0, 1, 2, 3), "clean", "", compacted([0, 2])),
    ("INV-36", (4,), "refused", "invariant", compacted([0, 2])),
    ("INV-45", (4,), "refused", "retired_syntax", lambda s: _user_of_a_plugin(s)),
]  # fmt: skip


def _prune_behind_the_turn(session: Session) -> None:
    called(session, lambda s: s.result())
    seq = session.seq - 1
    ENDED(session)
    message = session.result_message(words="short") | {"id": f"r{seq}"}
    op = replace(session.version, seq, seq)
    session.add("tool/result", session.place | {"message": message}, surfaceOp=op, sourceEventSeqs=[seq])


def _user_of_a_plugin(session: Session) -> None:
    data = {"id": "m", "role": "user", "content": [], "source": {"kind": "plugin", "plugin": "goal"}}
    session.add("user/message", data, surfaceOp="append")


@pytest.mark.parametrize(
    ("code", "version", "verdict", "reason", "act"),
    [
        pytest.param(code, version, verdict, reason, act, id=f"{code}-{number}-v{version}")
        for number, (code, versions, verdict, reason, act) in enumerate(BREACHES)
        for version in versions
    ],
)
def test_a_breach(code: str, version: int, verdict: str, reason: str, act: Act) -> None:
    log = read_after(version, act)
    finding = found(log, code)
    assert (log.verdict.verdict, log.verdict.reason) == (verdict, reason or None)
    assert finding.line is not None and finding.excerpt and finding.detail
    assert (finding.severity == "error") is (verdict == "refused") or verdict == "removable_tail"
    assert log.verdict.event_count == sum(record.count for record in log.records)


KEPT: dict[str, tuple[tuple[int, ...], Act]] = {
    "a whole turn": (VERSIONS, lambda s: (s.assistant(), ENDED(s), s.turn_with_call())),
    "two steps": (VERSIONS, lambda s: (called(s, lambda s: s.result()), s.step_end(), s.step_start(), s.assistant())),
    "a call id again in another step": (
        VERSIONS,
        lambda s: (called(s, lambda s: s.result()), s.step_end(), s.step_start(), called(s, lambda s: s.result())),
    ),
    "a compaction": (VERSIONS, replacing_user(2, 2, [2])),
    "a compaction in any order of sources": (VERSIONS, replacing_user(2, 2, [2, 0, 1])),
    "a compaction with its summary": (VERSIONS, compacted([2])),
    "a tool added": ((4,), developer("tool-addition", ["t", "u"], headerSeq=3)),
    "a tool removed": ((4,), developer("tool-removal")),
    "a pruned result": (VERSIONS, pruned()),
    "a failed result": (VERSIONS, result(error={"code": "E"}, is_error=True)),
    "messages without a user": (VERSIONS, lambda s: s.assistant("")),
    "a request header": (VERSIONS, lambda s: request_header()(s)),
    "an older system prompt": ((0, 1, 2), request_header(system="S", tools=[])),
    "a known empty stream": ((0, 1), lambda s: s.assistant(sourceEventSeqs=[])),
    "an unknown stream": ((0, 1), lambda s: s.assistant(sourceEventSeqs=...)),
    "a plugin of old": ((0, 1, 2, 3), _user_of_a_plugin),
}


@pytest.mark.parametrize(
    ("version", "act"),
    [
        pytest.param(version, act, id=f"{name}-v{version}")
        for name, (versions, act) in KEPT.items()
        for version in versions
    ],
)
def test_what_breaks_nothing(version: int, act: Act) -> None:
    log = read_after(version, act)
    assert (faults(log), log.verdict.verdict) == ((), "clean")


def test_a_system_message_at_the_head_is_replaced_only_alone_and_by_its_like() -> None:
    def session(act: Act) -> Log:
        session = Session(4)
        session.turn_start()
        session.step_start()
        session.system()  # seq 2
        session.user()  # seq 3
        act(session)
        return read(session)

    kept = session(lambda s: s.system("T", surfaceOp=replace(4, 2, 2), sourceEventSeqs=[2]))
    assert (kept.verdict.verdict, faults(kept)) == ("clean", ())
    for act in (replacing_user(2, 2, [2]), replacing_user(2, 3, [2, 3])):
        log = session(act)
        assert (log.verdict.verdict, log.verdict.reason) == ("refused", "invariant")
        assert found(log, "INV-32")


@pytest.mark.parametrize("version", VERSIONS)
def test_up_to_format_3_a_turn_may_follow_an_open_one_that_the_inbox_ended(version: int) -> None:
    def claim(session: Session) -> None:
        session.step_end()
        session.add("agent/inbox/spliced", {"target": "next-turn", "inserted": [{"id": "m"}]})
        session.turn_start()

    log = read_after(version, claim)
    verdict, severity = ("clean", "advisory") if version < 4 else ("refused", "error")
    assert (log.verdict.verdict, found(log, "INV-10").severity) == (verdict, severity)


@pytest.mark.parametrize(
    "between",
    [
        lambda s: s.add("agent/inbox/spliced", {"target": "next-turn", "inserted": []}),
        lambda s: s.add("agent/inbox/spliced", {"target": "this-turn", "inserted": [{"id": "m"}]}),
        lambda s: (s.add("agent/inbox/spliced", {"target": "next-turn", "inserted": [{}]}), s.add("todo/write", {})),
    ],
)
def test_otherwise_it_may_not(between: Act) -> None:
    log = read_after(0, lambda s: (s.step_end(), between(s), s.turn_start()))
    assert log.verdict.verdict == "refused" and found(log, "INV-10")


def test_attempts_of_a_step_are_told_apart() -> None:
    def retried(session: Session, cited: int) -> None:
        first = session.seq
        session.chunk({"type": "text-delta", "index": 0, "text": "a"})
        session.chunk({"type": "finish", "reason": {"kind": "error"}})
        second = session.seq
        session.chunk({"type": "text-delta", "index": 0, "text": "b"})
        sources = {1: [second], 2: [first, first + 1, second]}[cited]
        message = {"id": "a", "role": "assistant", "content": [text("b")], "source": {"kind": "model"}}
        session.add(
            "assistant/message", session.place | {"message": message}, surfaceOp="append", sourceEventSeqs=sources
        )

    assert read_after(0, lambda s: retried(s, 1)).verdict.verdict == "clean"
    log = read_after(0, lambda s: retried(s, 2))
    assert log.verdict.verdict == "refused" and found(log, "INV-25")


def test_a_range_of_the_surface_may_descend_in_numbers() -> None:
    """A summary has a high number and stands first."""
    session = Session(4).open_step()
    session.user("second")  # seq 3
    session.user("third")  # seq 4
    summary = session.user("sum", surfaceOp=replace(4, 2, 3), sourceEventSeqs=[2, 3])
    session.user("again", surfaceOp=replace(4, summary, 4), sourceEventSeqs=[summary, 4])
    assert read(session).verdict.verdict == "clean"


@pytest.mark.parametrize(
    ("first", "last", "span"),
    [
        (5, 5, slice(0, 1)),
        (5, 9, slice(0, 3)),
        (2, 9, slice(1, 3)),
        (9, 2, None),
        (5, 7, None),
        (7, 9, None),
        ("5", 9, None),
    ],
)
def test_spans_of_the_surface(first: Any, last: Any, span: slice | None) -> None:
    assert span_of([5, 2, 9], first, last) == span


def test_findings_of_one_log_are_bounded_by_its_lines() -> None:
    """A log that breaks everything gives no more than a few findings a line."""
    state = LogState(4)
    event = {"type": "tool/result", "seq": 1, "time": 1, "data": {}, "surfaceOp": {"op": "replace"}}
    judge_event(state, EventLine(2, 0, b"", False, 0, 1, 1, event, True, False))
    assert 0 < len(state.breaches) <= 6


@pytest.mark.parametrize("version", [3, 4])
def test_an_advertised_call_that_never_started_has_a_closer_of_fixed_text(version: int) -> None:
    """Any other text is no such closer."""

    def closed(session: Session) -> None:
        session.assistant("", [("c1", "bash", "{}")])
        message = session.result_message(words="not the text", isError=True)
        message["id"] = f"interrupted-tool-result-c1-{session.seq}"
        error = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
        session.add("tool/result", session.place | {"message": message, "error": error}, surfaceOp="append")

    log = read_after(version, closed)
    assert log.verdict.verdict == "refused" and found(log, "INV-18")
