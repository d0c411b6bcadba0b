"""Lines to records and the verdict: tails, corruption, refusals, gaps, branches, and that no line vanishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs import (
    START_MS,
    USAGE,
    VERSIONS,
    Session,
    Stored,
    as_raw,
    as_zstd,
    codes,
    dumps,
    faults,
    file_name,
    frame,
    header,
    read,
    read_bytes,
)
from turnlake.messages.log import Log

Act = Callable[[Session], Any]

NEW, OLD = (2, 3, 4), (0, 1)
TAIL, REFUSED = "removable_tail", "refused"


def read_after(version: int, act: Act) -> Log:
    """The log of a whole turn and what act adds."""
    session = Session(version).turn()
    act(session)
    return read(session)


def line(value: Any) -> Act:
    return lambda s: s.line(value)


def event(type_: str, data: Any = ..., **members: Any) -> Act:
    return lambda s: s.add(type_, data, **members)


def gap(type_: str = "todo/write", data: Any = ..., by: int = 1) -> Act:
    """An event whose number is by more than due."""
    return lambda s: s.add(type_, data, seq=s.seq + by)


def all_of(*acts: Act) -> Act:
    return lambda s: [act(s) for act in acts]


def user(**members: Any) -> Act:
    return lambda s: s.user(**members)


OLD_OP = {"op": "replace", "start": 2, "end": 2}
NEW_OP = {"op": "replace", "startSeq": 2, "endSeq": 2}
CHUNK = {"turn": 1, "step": 1, "chunk": {"type": "x"}}
OLD_HEADER = {"config": {"provider": "p", "model": "m"}, "system": "S"}
SURFACED = event("todo/write", {}, surfaceOp="append")
SOURCED: Act = lambda s: (s.open_step(), s.assistant(sourceEventSeqs=[1]))  # noqa: E731
TURN_END = line({"type": "turn/end"})
UNKNOWN = event("x/new", {"a": 1})

# What is done behind a whole turn -> verdict, reason, and how many more events are accepted.
ENDS: list[tuple[str, tuple[int, ...], Act, str, str | None, int]] = [
    ("nothing", VERSIONS, lambda s: None, "clean", None, 0),
    ("an open turn", VERSIONS, lambda s: s.open_step(), "clean", None, 3),
    ("no JSON", VERSIONS, line(b"{"), TAIL, "bad_record", 0),
    ("an empty line", VERSIONS, line(b""), TAIL, "bad_record", 0),
    ("blanks", VERSIONS, line(b" \t\r"), TAIL, "bad_record", 0),
    ("a list", VERSIONS, line([1]), TAIL, "bad_record", 0),
    ("null", VERSIONS, line(None), TAIL, "bad_record", 0),
    ("two values", VERSIONS, line(b"{}{}"), TAIL, "bad_record", 0),
    ("no type", VERSIONS, line({"seq": 1}), TAIL, "bad_record", 0),
    ("no number", VERSIONS, line({"type": "a/b"}), TAIL, "bad_record", 0),
    ("a second header", VERSIONS, line(header(4)), TAIL, "bad_record", 0),
    ("a gap", VERSIONS, gap(), TAIL, "seq_gap", 0),
    ("a number again", VERSIONS, gap(by=-1), TAIL, "seq_gap", 0),
    ("good lines behind a gap", VERSIONS, all_of(gap(), event("todo/write")), TAIL, "seq_gap", 0),
    ("a turn/end behind bad JSON", VERSIONS, all_of(line(b"{"), TURN_END), REFUSED, "corrupt", 0),
    ("a turn/end behind a gap", VERSIONS, all_of(gap(), TURN_END), REFUSED, "corrupt", 0),
    ("a turn/end with the gap", VERSIONS, gap("turn/end", {"turn": 1}), REFUSED, "corrupt", 0),
    ("a turn/end in a list", VERSIONS, all_of(line(b"{"), line([{"type": "turn/end"}])), TAIL, "bad_record", 0),
    ("an unknown type", VERSIONS, UNKNOWN, REFUSED, "unknown_type", 0),
    ("an unknown type that may be ignored", VERSIONS, event("x/new", {}, ignorable=True), "clean", None, 1),
    ("an unknown type behind a gap", VERSIONS, all_of(gap(), UNKNOWN), TAIL, "seq_gap", 0),
    ("an extra member", NEW, event("todo/write", {}, extra=1), TAIL, "invalid_event", 0),
    ("an extra member", OLD, event("todo/write", {}, extra=1), REFUSED, "invalid_event", 0),
    ("no time", NEW, event("todo/write", {}, time=...), TAIL, "invalid_event", 0),
    ("no time", OLD, event("todo/write", {}, time=...), REFUSED, "invalid_event", 0),
    ("a fractional time", NEW, event("todo/write", {}, time=1.5), TAIL, "invalid_event", 0),
    ("a time as text", OLD, event("todo/write", {}, time="1"), REFUSED, "invalid_event", 0),
    ("a float for an integer", VERSIONS, lambda s: s.add("todo/write", {}, seq=float(s.seq)), "clean", None, 1),
    ("data null", (0,), event("todo/write", None), "clean", None, 1),
    ("data null", (1,), event("todo/write", None), REFUSED, "invalid_event", 0),
    ("data null", NEW, event("todo/write", None), TAIL, "invalid_event", 0),
    ("data that is a list", NEW, event("todo/write", []), TAIL, "invalid_event", 0),
    ("no data", NEW, lambda s: s.line({"type": "todo/write", "seq": s.seq, "time": s.time}), TAIL, "invalid_event", 0),
    ("ignorable false", NEW, event("todo/write", {}, ignorable=False), TAIL, "invalid_event", 0),
    ("ignorable false", OLD, event("todo/write", {}, ignorable=False), REFUSED, "invalid_event", 0),
    ("surfaceOp on a log-only event", (3, 4), SURFACED, TAIL, "invalid_event", 0),
    ("surfaceOp on a log-only event", (0, 1, 2), SURFACED, REFUSED, "invalid_event", 0),
    ("surfaceOp on an unknown event", (3, 4), event("x/new", {}, surfaceOp="append", ignorable=True), "clean", None, 1),
    ("no surfaceOp", (3, 4), user(surfaceOp=...), TAIL, "invalid_event", 0),
    ("no surfaceOp", (0, 1, 2), user(surfaceOp=...), REFUSED, "invalid_event", 0),
    ("another surfaceOp", (4,), user(surfaceOp="prepend"), TAIL, "invalid_event", 0),
    ("the other replace", (4,), user(surfaceOp=OLD_OP), TAIL, "invalid_event", 0),
    ("the other replace", (0,), user(surfaceOp=NEW_OP), REFUSED, "invalid_event", 0),
    ("a fourth key", (4,), user(surfaceOp=NEW_OP | {"x": 1}), TAIL, "invalid_event", 0),
    ("no sources", (3, 4), user(sourceEventSeqs=[]), TAIL, "invalid_event", 0),
    ("no sources", (0, 1, 2), user(sourceEventSeqs=[]), REFUSED, "invalid_event", 0),
    ("sources of the future", (3, 4), lambda s: s.user(sourceEventSeqs=[s.seq]), TAIL, "invalid_event", 0),
    ("malformed sources", VERSIONS, user(sourceEventSeqs=[[3, 1]]), TAIL, "bad_record", 0),
    ("sources on a message", (3, 4), SOURCED, TAIL, "invalid_event", 3),
    ("sources on a message", (2,), SOURCED, REFUSED, "invalid_event", 3),
    ("a chunk", NEW, event("assistant/chunk", CHUNK), REFUSED, "unknown_type", 0),
    ("a message without stream", NEW, lambda s: _without_stream(s), REFUSED, "invalid_event", 3),
    ("a turn that has no end", (0, 1), event("turn/end", {}), REFUSED, "invalid_event", 0),
    ("an older type", OLD, event("mode/set", {}), REFUSED, "unsupported_legacy", 0),
]  # fmt: skip


def _without_stream(session: Session) -> None:
    session.open_step()
    message = {"id": "a", "role": "assistant", "content": [], "source": {"kind": "model"}}
    session.add("assistant/message", session.place | {"message": message}, surfaceOp="append")


@pytest.mark.parametrize(
    ("version", "act", "verdict", "reason", "more"),
    [
        pytest.param(version, act, verdict, reason, more, id=f"{name}-v{version}")
        for name, versions, act, verdict, reason, more in ENDS
        for version in versions
    ],
)
def test_what_stands_behind_a_whole_turn(version: int, act: Act, verdict: str, reason: str | None, more: int) -> None:
    whole = Session(version).turn()
    log = read_after(version, act)
    assert (log.verdict.verdict, log.verdict.reason) == (verdict, reason)
    assert log.verdict.accepted_event_count == (0 if verdict == REFUSED else whole.seq + more)
    if verdict == TAIL:
        assert log.verdict.dropped_record_count == len(log.records) + log.verdict.unread_line_count - _accepted_lines(
            log
        )
        assert log.verdict.line == 2 + _accepted_lines(log)
    assert log.verdict.dropped_record_count == 0 or verdict != "clean"
    assert log.verdict.has_unknown_required_type is (reason == "unknown_type")


def _accepted_lines(log: Log) -> int:
    return sum(record.seq < log.verdict.accepted_event_count and record.branch == 0 for record in log.records)


# Every reason for which a log is refused, but `unreadable`, and a log that is.
REFUSALS: dict[str, Log] = {
    "bad_header": read(Session(4, id=...).turn()),
    "corrupt": read_after(4, all_of(line(b"{"), TURN_END)),
    "invalid_event": read_after(0, event("todo/write", {}, extra=1)),
    "invalid_payload": read_after(4, event("request/header", {})),
    "invariant": read_after(4, event("turn/start", {"turn": 9})),
    "no_header": read_bytes(b'{"type":"turn/start"}\n'),
    "retired_header_key": read(Session(0, sandboxMode="x").turn()),
    "retired_syntax": read_after(4, event("request/header", {"header": OLD_HEADER})),
    "unknown_type": read_after(4, UNKNOWN),
    "unknown_version": read(Session(4, version=5)),
    "unsupported_legacy": read_after(0, event("mode/set", {})),
    "version_mismatch": read(Session(4, version=3)),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSALS)
def test_each_refusal_has_its_reason_and_a_finding(reason: str) -> None:
    log = REFUSALS[reason]
    assert (log.verdict.verdict, log.verdict.reason, log.verdict.accepted_event_count) == (REFUSED, reason, 0)
    assert any(finding.line == log.verdict.line and finding.severity == "error" for finding in log.findings)


def test_the_first_reason_counts() -> None:
    log = read_after(4, all_of(event("turn/start", {"turn": 9}), UNKNOWN))
    assert log.verdict.reason == "invariant"


def test_the_verdict_names_the_line() -> None:
    session = Session(4).turn()
    assert read(session.line(b"{").line(b"{")).verdict.line == len(session.lines) - 1
    session = Session(4).turn()
    session.add("x/new")
    assert read(session.turn()).verdict.line == 8


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"garbage\n", b'{"type":"session"', b"\xff\xfe\n"])
def test_a_canonical_log_without_a_header_is_refused(data: bytes) -> None:
    log = read_bytes(data)
    assert (log.verdict.verdict, log.verdict.reason, log.records) == (REFUSED, "no_header", ())
    assert "no_header" in codes(log)


def test_a_log_of_its_header_only_is_clean() -> None:
    log = read(Session(4))
    assert (log.verdict.verdict, log.events, log.findings) == ("clean", (), ())


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("seed", "verdict"), [(0, "clean"), (3, "clean"), (15, "clean"), (16, REFUSED)])
def test_seeds_of_the_older_formats(version: int, seed: int, verdict: str) -> None:
    log = read(Session(version, seedLength=seed, parentSession="p").turn())
    assert (log.verdict.verdict, log.verdict.inherited_event_count) == (verdict, seed)
    assert ("INV-43" in codes(log)) == (verdict == REFUSED)


@pytest.mark.parametrize("version", NEW)
def test_the_last_inherited_marker_is_the_cut(version: int) -> None:
    session = Session(version, isSeeded=True, parentSession="p").turn()
    session.add("session/end-seed", {"inherited": True})
    session.add("session/end-seed", {"inherited": True})
    session.add("session/end-seed", {})
    log = read(session)
    assert (log.verdict.verdict, log.verdict.inherited_event_count) == ("clean", 7)


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize("is_seeded", [True, False])
def test_marker_and_header_agree(version: int, is_seeded: bool) -> None:
    session = Session(version, isSeeded=is_seeded).turn()
    session.add("session/end-seed", {} if is_seeded else {"inherited": True})
    log = read(session)
    assert (log.verdict.verdict, log.verdict.reason) == (REFUSED, "invariant")
    assert "INV-43" in codes(log)


def test_a_marker_behind_the_tail_is_none() -> None:
    session = Session(4, isSeeded=True).turn().line(b"{")
    session.add("session/end-seed", {"inherited": True})
    assert read(session).verdict.verdict == REFUSED


def test_two_writers_make_two_branches() -> None:
    session = Session(4).turn()
    session.seq = 2
    session.user("the other writer")
    session.seq = 1
    session.add("todo/write", {})
    log = read(session)
    assert [record.branch for record in log.records[-2:]] == [1, 2]
    assert [(finding.branch, finding.seq) for finding in log.findings if finding.code == "branch"] == [(1, 2), (2, 1)]
    assert (log.verdict.verdict, log.verdict.reason, log.verdict.accepted_event_count) == (TAIL, "seq_gap", 6)
    assert len(log.events) == 6


def test_own_times_that_go_back_are_counted() -> None:
    session = Session(0, seedLength=1).turn()
    session.time -= 50
    session.add("todo/write", {})
    session.turn_number, session.step_number = 1, 1
    session.packed(["a", "b", "c", "d"], [1, -1, -1])
    log = read(session)
    [finding] = [finding for finding in log.findings if finding.code == "clock_went_back"]
    assert finding.detail.endswith("; 3 times in all")
    assert (finding.severity, finding.line, finding.seq) == (None, 17, 15)


def test_overlong_lines_are_told_and_the_rest_is_read() -> None:
    session = Session(4).turn("x" * 4000)
    log = read_bytes(session.raw, max_line=2000)
    [finding] = [finding for finding in log.findings if finding.code == "unread_line"]
    assert "longer" in finding.detail
    assert finding.line == 4 and finding.excerpt is not None and len(finding.excerpt) == 200
    assert (log.verdict.unread_line_count, log.verdict.event_count) == (1, 5)


def test_findings_say_where() -> None:
    session = Session(4).turn().line(b'{"broken"')
    [finding] = faults(read(session))
    assert (finding.code, finding.line) == ("unread_line", 8)
    assert finding.byte_offset == sum(len(line) + 1 for line in session.lines[:-1])
    assert finding.excerpt == '{"broken"'


# Properties

GOOD: list[Act] = [
    lambda s: s.turn(),
    lambda s: s.turn_with_call(),
    lambda s: s.user(),
    event("todo/write", {"items": []}),
    event("x/new", {}, ignorable=True),
    lambda s: s.packed(["a", "b", ""], [0, 5]),
    lambda s: s.add("assistant/message", {"message": {"content": "Hi"}, "usage": USAGE}),
    lambda s: setattr(s, "seq", max(0, s.seq - 3)),
    lambda s: setattr(s, "seq", s.seq + 3),
]
BAD: list[Act] = [
    line(b""),
    line(b"{"),
    line(b"\xff\x00"),
    line(b"[" * 100),
    line([]),
    line({}),
    line({"type": 1, "seq": 0}),
    line({"type": "a/b", "seq": "0"}),
    line({"type": "text-chunks", "seq0": 0}),
    line(header(3)),
    line(b'{"type":"a/b","seq":0,"time":0,"data":{"x":"\\ud800"}}'),
    line(b'{"type":"a/b","seq":0,"time":0,"data":{"x":"\xff"}}'),
    line({"type": "a/b", "seq": 0, "time": None, "data": 1, "more": [[]]}),
    line({"type": "tool/result", "seq": 0, "data": {"message": 1}, "surfaceOp": 1, "sourceEventSeqs": {}}),
    line({"type": "assistant/message", "seq": 0, "time": 0, "data": {"stream": [1]}}),
]
MIXED = st.lists(st.sampled_from(GOOD + BAD), max_size=8)


def mixture(version: int, acts: list[Act]) -> Session:
    session = Session(version)
    for act in acts:
        act(session)
    return session


@given(st.sampled_from(VERSIONS), MIXED)
def test_every_line_is_the_header_a_row_or_a_finding(version: int, acts: list[Act]) -> None:
    session = mixture(version, acts)
    stored = Stored(session.raw, file_name(version))
    rows = {row["line"] for row in (*stored.events, *stored.runs)}
    unread = stored.unread_lines
    assert rows.isdisjoint(unread)
    assert rows | unread == set(range(2, len(session.lines) + 1))
    assert (stored.log["line_count"], stored.log["unread_line_count"]) == (len(session.lines), len(unread))


@given(st.sampled_from(VERSIONS), MIXED)
def test_positions_lead_back_to_the_line(version: int, acts: list[Act]) -> None:
    session = mixture(version, acts)
    for record in read(session).records:
        assert record.raw == session.lines[record.line - 1]
        assert session.raw[record.offset :].startswith(record.raw + b"\n")


@given(st.sampled_from(VERSIONS), MIXED, st.data())
def test_a_log_cut_off_anywhere_accepts_no_more_than_the_whole(
    version: int, acts: list[Act], data: st.DataObject
) -> None:
    session = mixture(version, [lambda s: s.turn(), *acts])
    name, whole = file_name(version), read(session)
    cut = data.draw(st.integers(0, len(session.raw)))
    log = read_bytes(session.raw[:cut], name)
    assert log.verdict.event_count <= whole.verdict.event_count
    if whole.verdict.verdict != REFUSED and log.verdict.verdict != REFUSED:
        assert log.verdict.accepted_event_count <= whole.verdict.accepted_event_count
        assert whole.events[: len(log.events)] == log.events


@given(st.sampled_from(VERSIONS), st.lists(st.integers(0, 4), max_size=4), st.data())
def test_a_compressed_log_cut_off_anywhere_is_never_corrupt(
    version: int, frames: list[int], data: st.DataObject
) -> None:
    """An append is whole or gone for the harness; its next writer starts at the torn frame."""
    session = Session(version).turn().turn_with_call()
    packed, name = as_zstd(session.lines, frames), file_name(version, "zstd")
    cut = data.draw(st.integers(0, len(packed)))
    log = read_bytes(packed[:cut], name)
    whole = read_bytes(packed, name)
    assert log.verdict.reason in (None, "no_header")
    assert whole.events[: len(log.events)] == log.events
    assert (log.verdict.reason == "no_header") == (cut < len(frame(session.lines[0] + b"\n")))


@given(st.sampled_from(VERSIONS), MIXED, st.lists(st.integers(0, 4), max_size=4))
def test_frames_make_no_difference(version: int, acts: list[Act], frames: list[int]) -> None:
    session = mixture(version, acts)
    raw, packed = read(session), read_bytes(as_zstd(session.lines, frames), file_name(version, "zstd"))
    assert (packed.verdict, packed.findings, packed.records) == (raw.verdict, raw.findings, raw.records)


@given(st.binary(max_size=300))
def test_noise_gives_a_verdict(noise: bytes) -> None:
    for name in ("session.jsonl", "session.v4.jsonl.zstd", "loose.jsonl"):
        assert read_bytes(noise, name).verdict.verdict in ("clean", TAIL, REFUSED)


@given(st.sampled_from(VERSIONS), st.data())
def test_one_changed_byte_gives_a_verdict(version: int, data: st.DataObject) -> None:
    raw = bytearray(Session(version).turn_with_call().raw)
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    log = read_bytes(bytes(raw), file_name(version))
    assert log.verdict.accepted_event_count <= log.verdict.event_count
    json.dumps([log.verdict.reason, [finding._asdict() for finding in log.findings]]).encode()


def test_the_builder_of_these_logs_is_right() -> None:
    for version in VERSIONS:
        log = read_bytes(as_raw(Session(version).turn().turn_with_call().lines), file_name(version))
        assert (log.verdict.verdict, faults(log)) == ("clean", ())
        assert [event["seq"] for event in log.events] == list(range(len(log.events)))
        assert log.events[0]["time"] == START_MS
        assert json.loads(dumps(header(version))) == header(version)
