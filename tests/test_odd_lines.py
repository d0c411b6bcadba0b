"""Lines that look plain and are not, or the other way round: each is read right, in every way a lake reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logs import USAGE, VERSIONS, Session, as_raw, dumps, file_name, text
from readings import Reading, assert_all_ways_agree

USER = {"id": "m", "role": "user", "content": [text("Hi")], "source": {"kind": "user"}}
ANSWER = {"id": "a", "role": "assistant", "content": [text("Hello")], "source": {"kind": "model"}}


def read(session: Session) -> Reading:
    """The session as read. That it grows by a turn, and is gone then, makes no difference to its rows."""
    more = Session(session.version)
    more.seq, more.time = session.seq, session.time
    raw = session.raw
    return assert_all_ways_agree(raw + as_raw(more.turn().lines[1:]), file_name(session.version), len(raw))


def judged(reading: Reading) -> tuple[str, list[str]]:
    """The verdict, and the codes of all findings."""
    return reading.log["verdict"], [row["code"] for row in reading.findings]


def event(session: Session, **members: Any) -> bytes:
    """The line of the event that is due, members replaced."""
    return dumps({"type": "todo/write", "seq": session.seq, "time": session.time, "data": {}} | members)


def packed(session: Session, **data: Any) -> bytes:
    """A packed row of two texts, members of its data replaced."""
    data = {"turn": 1, "step": 1, "index": 0, "dt": [1], "texts": ["a", "b"]} | data
    return dumps({"type": "text-chunks", "seq0": session.seq, "time0": session.time, "data": data})


def streaming(session: Session, stream: Any) -> Session:
    """A message with that stream, and no other usage."""
    session.add("assistant/message", session.place | {"message": ANSWER, "stream": stream}, surfaceOp="append")
    return session


# Numbers


@pytest.mark.parametrize("time", [2**53, 2**64])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_time_beyond_all_integers_of_javascript_is_no_time(version: int, time: int) -> None:
    session = Session(version).open_step()
    session.line(event(session, time=time), 1)
    reading = read(session)
    row = reading.events[-1]
    assert (row["time_ms"], row["raw_line"]) == (None, session.lines[-1].decode())
    assert judged(reading) == ("removable_tail" if version >= 2 else "refused", ["INV-03"])


@pytest.mark.parametrize("member", ["seq", "time", "turn"])
@pytest.mark.parametrize("version", VERSIONS)
def test_minus_zero_is_no_integer(version: int, member: str) -> None:
    session = Session(version)
    line = event(session, data={"turn": 0}).replace(b'"%s":%d' % (member.encode(), 0), b'"%s":-0' % member.encode())
    if member == "time":
        line = event(session, time=0).replace(b'"time":0', b'"time":-0')
    assert b"-0" in line
    reading = read(session.line(line, 1))
    if member == "seq":
        assert (reading.events, reading.log["unread_line_count"]) == ([], 1)
    elif member == "time":
        assert [row["time_ms"] for row in reading.events] == [None]
        assert judged(reading) == ("removable_tail" if version >= 2 else "refused", ["INV-03"])
    else:
        assert [(row["turn"], row["raw_line"]) for row in reading.events] == [(None, line.decode())]
        assert reading.log["verdict"] == "clean"


@pytest.mark.parametrize("member", ["createdAt", "delegationDepth", "seedLength"])
def test_minus_zero_in_a_header_is_no_count(member: str) -> None:
    session = Session(0, **{member: 0}).turn()
    session.lines[0] = session.lines[0].replace(b'"%s":0' % member.encode(), b'"%s":-0' % member.encode())
    assert b"-0" in session.lines[0]
    reading = read(session)
    assert (reading.log["verdict"], reading.log["verdict_reason"]) == ("refused", "bad_header")


@pytest.mark.parametrize("number", [2**53, 2**63, 2**64, -(2**63) - 1, 10**25])
@pytest.mark.parametrize("version", [0, 4])
def test_an_integer_in_data_stays_as_written(version: int, number: int) -> None:
    session = Session(version)
    session.line(event(session, data={"x": [number]}), 1)
    reading = read(session)
    [row] = reading.events
    assert row["payload"] == f'{{"x":[{number}]}}'
    # What Python holds as a float only the whole line gives back.
    is_float = not -(2**63) <= number < 2**64
    assert row["raw_line"] == (session.lines[1].decode() if is_float else None)


@pytest.mark.parametrize(
    ("dt", "last"),
    [([1.0], 1), ([-5], -5), *(([odd], None) for odd in (True, None, [1], "1", 0.5, 2**53, 2**64))],
    ids=str,
)
def test_time_steps_are_integers(dt: list[Any], last: int | None) -> None:
    for version in (0, 4):
        session = Session(version).open_step()
        time = session.time
        if version:
            record = {"type": "text-chunks", "time0": time, "index": 0, "dt": dt, "texts": ["a", "b"]}
            reading = read(streaming(session, [record]))
            assert reading.events[-1]["last_chunk_ms"] == (None if last is None else time + last)
            assert judged(reading) == ("clean", ["INV-27"] if last is None else [])
            assert json.loads(reading.events[-1]["payload"])["stream"] == ([record] if last is None else [])
        else:
            reading = read(session.line(packed(session, dt=dt), 2))
            assert [row["last_time_ms"] for row in reading.runs] == ([] if last is None else [time + last])
            assert reading.log["unread_line_count"] == (last is None)


def test_a_lone_chunk_with_a_float_for_its_seq_is_a_row_of_chunks() -> None:
    session = Session(0).open_step()
    session.chunk({"type": "text-delta", "index": 0, "text": "a"})
    session.lines[-1] = session.lines[-1].replace(b'"seq":3', b'"seq":3.0')
    reading = read(session)
    assert [(row["form"], row["seq"], row["raw_line"]) for row in reading.runs] == [
        ("single", 3, session.lines[-1].decode())
    ]
    assert (len(reading.events), *judged(reading)) == (3, "clean", [])


def test_a_retry_counted_in_floats_is_the_one_announced() -> None:
    session = Session(4).open_step()
    retry = session.place | {"retryId": "r", "provider": "p", "policyKey": "k", "retry": 1}
    session.add("llm/retry", retry)
    session.add("llm/retry-started", retry | {"turn": 1.0, "step": 1.0, "retry": 1.0})
    assert judged(read(session)) == ("clean", [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_float", [False, True])
def test_a_replacement_spelt_otherwise_is_one(is_float: bool, version: int) -> None:
    """With floats for its ends, or its members in another order."""
    session = Session(version).open_step()
    first, last = ("start", "end") if version < 3 else ("startSeq", "endSeq")
    op = {"op": "replace", first: 2.0, last: 2.0} if is_float else {last: 2, first: 2, "op": "replace"}
    session.user(surfaceOp=op, sourceEventSeqs=[2])
    reading = read(session)
    row = reading.events[-1]
    assert (row["surface_op"], row["replace_start_seq"], row["replace_end_seq"]) == ("replace", 2, 2)
    assert (row["raw_line"], *judged(reading)) == (session.lines[-1].decode(), "clean", [])


@pytest.mark.parametrize("kind", ["user/message", "todo/write"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_operation_that_is_null_is_none_and_not_absent(version: int, kind: str) -> None:
    session = Session(version).open_step()
    session.add(kind, USER, surfaceOp=None)
    reading = read(session)
    assert judged(reading) == ("removable_tail" if version >= 3 else "refused", ["INV-05"])
    row = reading.events[-1]
    assert (row["surface_op"], row["raw_line"]) == (None, session.lines[-1].decode())


# Text


@pytest.mark.parametrize("kind", ["event", "chunk", "packed", "answer"])
def test_bytes_that_are_no_utf8_come_back_as_read(kind: str) -> None:
    session = Session(4 if kind == "answer" else 0).open_step()
    if kind == "event":
        session.line(event(session, data={"title": "<>"}), 1)
    elif kind == "answer":
        streaming(session, [{"type": "chunk", "time": 5, "chunk": {"type": "text-delta", "index": 0, "text": "<>"}}])
    elif kind == "chunk":
        session.chunk({"type": "text-delta", "index": 0, "text": "<>"})
    else:
        session.line(packed(session, texts=["<>", "b"]), 2)
    session.lines[-1] = session.lines[-1].replace(b"<>", b"\xff")
    reading = read(session)
    rows = reading.events[3:] + reading.runs
    assert [row["raw_line"] for row in rows] == [session.lines[-1].decode("utf-8", "replace")]
    assert "\ufffd" in rows[0]["stream" if kind == "answer" else "payload"]
    assert judged(reading) == ("clean", ["invalid_utf8"])


@pytest.mark.parametrize("levels", [254, 255])
@pytest.mark.parametrize("blank", [b"", b" "])
@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"x":', b"}")], ids=["lists", "objects"])
def test_a_line_of_254_levels_is_read_and_one_of_255_is_not(
    brackets: tuple[bytes, bytes], blank: bytes, levels: int
) -> None:
    session = Session(4)
    inner = brackets[0] * (levels - 2) + b"1" + brackets[1] * (levels - 2)
    session.line(event(session, data={"x": 0}).replace(b'{"x":0}', b'{"x":' + inner + b"}" + blank), 1)
    reading = read(session)
    if levels == 254:
        assert (len(reading.events), *judged(reading)) == (1, "clean", [])
    else:
        assert (reading.events, *judged(reading)) == ([], "removable_tail", ["unread_line"])


# Streams

FINISH = {"type": "chunk", "time": 5, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}
SPENT = {"type": "chunk", "time": 5, "chunk": {"type": "usage", "usage": USAGE}}
NAMED = {"type": "chunk", "time": 5, "chunk": {"type": "x", "stream": [1]}}
NAMING = ANSWER | {"content": [{"type": "x", "stream": [2]}]}
# Data whose stream is easily cut out wrongly.
STREAMS: dict[str, dict[str, Any]] = {
    "empty, last": {"message": ANSWER, "stream": []},
    "empty, in the middle": {"turn": 1, "stream": [], "message": ANSWER},
    "alone and empty": {"stream": []},
    "last": {"message": ANSWER, "stream": [SPENT, FINISH]},
    "first": {"stream": [SPENT, FINISH], "message": ANSWER},
    "first, and named in a message": {
        "stream": [FINISH],
        "message": NAMING,
    },
    "last, and named in a message": {
        "message": ANSWER | {"content": [{"type": "x", "stream": [2]}]},
        "stream": [SPENT],
    },
    "last, and named in a text": {"message": ANSWER | {"content": [text('},"stream":[')]}, "stream": [SPENT]},
    "last, and named in a key": {"message": ANSWER, ',"stream":[': [], "stream": [SPENT]},
    "last, and named in itself": {"message": ANSWER, "stream": [NAMED]},
    "alone, and named in itself": {"stream": [NAMED]},
}


@pytest.mark.parametrize("is_odd", [False, True])
@pytest.mark.parametrize("kind", ["assistant/message", "assistant/attempt"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_cut_out_of_its_payload_and_nothing_else(name: str, kind: str, is_odd: bool) -> None:
    data = STREAMS[name]
    session = Session(4).open_step()
    session.add(kind, data, **({"surfaceOp": "append"} if kind == "assistant/message" else {}))
    session.lines[-1] += b"\r" if is_odd else b""
    row = read(session).events[-1]
    assert json.loads(row["stream"]) == data["stream"]
    assert json.loads(row["payload"]) == data | {"stream": []}
    assert row["chunk_count"] == len(data["stream"])
    assert row["raw_line"] == (session.lines[-1].decode() if is_odd else None)


@pytest.mark.parametrize("stream", [[], [SPENT], [1], None, {"a": 1}, "x"], ids=json.dumps)
@pytest.mark.parametrize("version", [0, 1])
def test_a_member_stream_means_nothing_before_version_2(version: int, stream: Any) -> None:
    session = streaming(Session(version).open_step(), stream)
    reading = read(session)
    row = reading.events[-1]
    assert judged(reading) == ("clean", [])
    assert (row["stream"], row["chunk_count"], row["input_tokens"], row["usage_place"]) == (None,) * 4
    assert json.loads(row["payload"])["stream"] == stream
