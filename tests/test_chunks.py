"""Packed rows and embedded streams: what is one, what it expands to, what is malformed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs import Session, Stored, codes, dumps, event_texts, file_name, header, read, read_bytes
from turnlake.format.chunks import StreamSummary, chunk_type_of, packed_row, summarize
from turnlake.format.records import ChunkLine
from turnlake.format.scan import LogName, Scan
from turnlake.format.values import MAX_SAFE, BadRecord

Object = dict[str, Any]

TEXT_DATA = {"turn": 1, "step": 1, "index": 0, "dt": [15, -2, 40], "texts": ["Hel", "lo ", "", "ld"]}
TEXT_ROW = {"type": "text-chunks", "seq0": 12, "time0": 1000, "data": TEXT_DATA}
CALL_DATA = {"turn": 1, "step": 1, "index": 2, "id": "c1", "name": "bash", "dt": [1], "args": ["{", "}"]}
CALL_ROW = {"type": "tool-call-chunks", "seq0": 3, "time0": 1000, "data": CALL_DATA}


def changed(row: Object, **data: Any) -> Object:
    """The row with members of its data changed, or left out where given as `...`."""
    return row | {"data": {key: value for key, value in (row["data"] | data).items() if value is not ...}}


def packed(row: Object) -> ChunkLine:
    """The record of a packed row in the second line of a log of format 0."""
    packed_row(row)
    scan = Scan(LogName(0, "s"))
    scan.feed(1, 0, dumps(header(0)), False)
    record = scan.feed(2, 100, dumps(row), False)
    assert isinstance(record, ChunkLine)
    return record


def chunks(row: Object) -> list[tuple[int, Object]]:
    """The chunks of a packed row with their times."""
    return [(event["time"], event["data"]["chunk"]) for event in packed(row).logical()]


def test_a_packed_row_expands() -> None:
    run = packed(TEXT_ROW)
    assert chunks(TEXT_ROW) == [
        (1000, {"type": "text-delta", "index": 0, "text": "Hel"}),
        (1015, {"type": "text-delta", "index": 0, "text": "lo "}),
        (1013, {"type": "text-delta", "index": 0, "text": ""}),
        (1053, {"type": "text-delta", "index": 0, "text": "ld"}),
    ]
    assert (run.count, run.turn, run.step, run.time_ms, run.last_time_ms, run.is_rising) == (4, 1, 1, 1000, 1053, False)


def test_reasoning_and_calls_expand() -> None:
    assert chunks(TEXT_ROW | {"type": "reasoning-chunks"})[0][1]["type"] == "reasoning-delta"
    delta = {"type": "tool-call-delta", "index": 2, "id": "c1", "name": "bash"}
    assert [chunk for _, chunk in chunks(CALL_ROW)] == [delta | {"argumentsDelta": text} for text in ("{", "}")]
    assert "name" not in chunks(changed(CALL_ROW, name=...))[0][1]


@pytest.mark.parametrize(
    ("row", "first_token_ms"),
    [
        (TEXT_ROW, 1000),
        (changed(TEXT_ROW, texts=["", "", "x", "y"]), 1013),
        (changed(TEXT_ROW, texts=[""] * 4), None),
        (changed(CALL_ROW, args=["", ""]), 1000),
        (changed(CALL_ROW, name="", args=["", "{}"]), 1001),
        (changed(CALL_ROW, name=..., args=["", ""]), None),
    ],
)
def test_the_first_token_is_the_first_delta_that_holds_anything(row: Object, first_token_ms: int | None) -> None:
    assert packed(row).first_token_ms == first_token_ms


@pytest.mark.parametrize(
    "row",
    [
        TEXT_ROW | {"extra": 1},
        {key: value for key, value in TEXT_ROW.items() if key != "time0"},
        TEXT_ROW | {"data": None},
        TEXT_ROW | {"data": []},
        TEXT_ROW | {"seq0": -1},
        TEXT_ROW | {"seq0": 1.5},
        TEXT_ROW | {"seq0": True},
        TEXT_ROW | {"time0": None},
        TEXT_ROW | {"time0": MAX_SAFE + 1},
        TEXT_ROW | {"time0": MAX_SAFE},
        TEXT_ROW | {"type": "tool-call-chunks"},
        CALL_ROW | {"type": "text-chunks"},
        changed(TEXT_ROW, extra=1),
        changed(TEXT_ROW, name="x"),
        changed(TEXT_ROW, index=...),
        changed(TEXT_ROW, index=-1),
        changed(TEXT_ROW, turn="1"),
        changed(TEXT_ROW, step=None),
        changed(TEXT_ROW, dt=[1, 2]),
        changed(TEXT_ROW, dt=[1, 2, 3, 4]),
        changed(TEXT_ROW, dt=[1, 2, 0.5]),
        changed(TEXT_ROW, dt=[1, 2, True]),
        changed(TEXT_ROW, dt=[1, 2, False]),
        changed(TEXT_ROW, dt=[1, 2, "3"]),
        changed(TEXT_ROW, dt=[1, 2, None]),
        changed(TEXT_ROW, dt=[1, MAX_SAFE, 0]),
        changed(TEXT_ROW, dt=[1, MAX_SAFE, -MAX_SAFE]),
        changed(TEXT_ROW, dt="abc"),
        changed(TEXT_ROW, texts=[]),
        changed(TEXT_ROW, texts=["a", "b", "c", 4]),
        changed(TEXT_ROW, texts=["a", "b", "c", None]),
        changed(TEXT_ROW, texts="abcd"),
        changed(TEXT_ROW, texts={"a": 1}),
        changed(TEXT_ROW, dt=[], texts=[]),
        changed(CALL_ROW, id=""),
        changed(CALL_ROW, id=1),
        changed(CALL_ROW, id=...),
        changed(CALL_ROW, name=None),
        changed(CALL_ROW, texts=["a", "b"]),
    ],
    ids=lambda row: dumps(row).decode()[:90],
)
def test_malformed_rows(row: Object) -> None:
    with pytest.raises(BadRecord):
        packed(row)


@pytest.mark.parametrize(
    "row", [TEXT_ROW | {"seq0": 12.0, "time0": 1e3}, changed(TEXT_ROW, dt=[15.0, -2.0, 40])], ids=str
)
def test_floats_without_fraction_are_integers(row: Object) -> None:
    run = packed(row)
    times = [*run.times(), run.time_ms, run.last_time_ms]
    assert times == [1000, 1015, 1013, 1053, 1000, 1053] and all(type(time) is int for time in times)


STREAM: list[Object] = [
    {"type": "chunk", "time": 1, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
    {"type": "text-chunks", "time0": 4, "index": 0, "dt": [20], "texts": ["Hel", "lo"]},
    {"type": "tool-call-chunks", "time0": 30, "index": 1, "dt": [], "id": "c1", "name": "bash", "args": ["{}"]},
    {"type": "chunk", "time": 31, "chunk": {"type": "usage", "usage": {"inputTokens": 9}}},
]


def test_a_stream_is_summed_up() -> None:
    assert summarize(STREAM) == StreamSummary(5, 31, 4, 30, STREAM[3]["chunk"], None)
    assert summarize([]) == StreamSummary(0, None, None, None, None, None)


@pytest.mark.parametrize(
    "record",
    [
        None,
        "chunk",
        {},
        STREAM[0] | {"extra": 1},
        STREAM[0] | {"time": "1"},
        STREAM[0] | {"time": 1.5},
        STREAM[0] | {"chunk": None},
        STREAM[0] | {"chunk": {}},
        STREAM[0] | {"type": "text-delta"},
        STREAM[1] | {"id": "c1"},
        STREAM[1] | {"dt": []},
        STREAM[1] | {"dt": [], "texts": []},
        STREAM[1] | {"texts": ["a", 1]},
        STREAM[1] | {"dt": [True]},
        STREAM[2] | {"id": 1},
        STREAM[2] | {"index": None},
    ],
    ids=lambda record: dumps(record).decode()[:90],
)
def test_a_malformed_stream_is_found_and_the_event_kept(record: Any) -> None:
    """Format 2 refuses the log; later ones do not look into a stream."""
    with pytest.raises(BadRecord):
        summarize([*STREAM, record])
    for version, verdict in ((2, "refused"), (3, "clean"), (4, "clean")):
        session = Session(version).open_step()
        message = {"id": "a", "role": "assistant", "content": [], "source": {"kind": "model"}}
        session.add("assistant/message", session.place | {"message": message, "stream": [record]}, surfaceOp="append")
        log = read(session)
        assert (log.verdict.verdict, "INV-27" in codes(log)) == (verdict, True)
        stored = Stored(session.raw, file_name(version))
        assert stored.replayed() == event_texts(log)
        assert stored.runs == [] and stored.events[-1]["stream"] is None


@pytest.mark.parametrize("stream", [None, {}, "x", 1])
def test_a_stream_that_is_no_list(stream: Any) -> None:
    with pytest.raises(BadRecord):
        summarize(stream)


@pytest.mark.parametrize("chunk", [None, [], "x", {}, {"type": ""}, {"type": 1}])
def test_what_is_no_chunk(chunk: Any) -> None:
    assert chunk_type_of(chunk) is None


def test_an_empty_stream_is_legal_and_no_attempt_is_lost() -> None:
    session = Session(4).open_step()
    session.add("assistant/attempt", session.place | {"stream": []})
    assert read(session).verdict.verdict == "clean"
    assert Stored(session.raw).replayed() == event_texts(read(session))


def test_a_packed_row_has_no_place_from_v2_on() -> None:
    data = dumps(header(2)) + b"\n" + dumps(TEXT_ROW | {"seq0": 0}) + b"\n"
    log = read_bytes(data, "session.v2.jsonl")
    assert (log.verdict.verdict, log.verdict.reason, log.verdict.accepted_event_count) == (
        "removable_tail",
        "bad_record",
        0,
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_packed_row_counts_for_all_its_chunks_or_none(version: int) -> None:
    session = Session(version).open_step()
    session.packed(["a", "b", "c"])
    accepted = session.seq
    session.packed(["d", "e"], [True])
    log = read(session)
    assert (log.verdict.verdict, log.verdict.accepted_event_count) == ("removable_tail", accepted)
    assert (log.verdict.unread_line_count, log.verdict.dropped_record_count) == (1, 1)


TEXTS = st.lists(st.text(max_size=4), min_size=1, max_size=6)


@given(st.data(), TEXTS, st.sampled_from(["text", "reasoning", "tool-call"]), st.booleans(), st.sampled_from([0, 1]))
def test_any_run_expands_to_its_chunks_and_survives(
    data: st.DataObject, texts: list[str], kind: str, has_name: bool, version: int
) -> None:
    steps = data.draw(st.lists(st.integers(-(10**6), 10**6), min_size=len(texts) - 1, max_size=len(texts) - 1))
    member = (
        {"args": texts, "id": "c", **({"name": "n"} if has_name else {})} if kind == "tool-call" else {"texts": texts}
    )
    body = {"turn": 1, "step": 1, "index": 0, "dt": steps} | member
    session = Session(version).open_step()
    session.line({"type": f"{kind}-chunks", "seq0": session.seq, "time0": session.time, "data": body}, len(texts))
    log = read(session)
    chunks = [event for event in log.events if event["type"] == "assistant/chunk"]
    key = "argumentsDelta" if kind == "tool-call" else "text"
    assert [event["data"]["chunk"][key] for event in chunks] == texts
    assert [event["seq"] for event in log.events] == list(range(session.seq))
    times = [event["time"] for event in chunks]
    assert [later - sooner for sooner, later in pairwise(times)] == steps
    assert Stored(session.raw, file_name(version)).replayed() == event_texts(log)
