"""How a line is spelt makes no difference to what is read of it, and neither does when or from where it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from drawn import Drawn
from logs import VERSIONS, Session, dumps, file_name, read_bytes
from readings import Reading, assert_all_ways_agree, lived
from turnlake.rows.replay import stored_events
from turnlake.rows.writer import Row

# What may stand where the harness writes a number, a string or a list.
ODD: tuple[Any, ...] = (
    *(True, False, None, 1.0, -1, 2**53, 2**64, -(2**63), 0.5),
    *("", "true", "\ud800", [], [1], {}, {"type": "usage"}),
)
# What tells how a line is spelt.
SPELLING = ("raw_line", "byte_offset", "payload", "stream", "excerpt", "detail")
# How an integer may be written; as the harness writes it.
NUMBERS, PLAIN = ("", ".0", "e0"), ("",)
SIZES = ("bytes", "decoded_bytes", "torn_bytes", "header")


def streamed(version: int = 0) -> Session:
    """A log of v0 or v1 with chunks of every kind, as the harness writes them."""
    session = Session(version).open_step()
    place = session.place
    session.chunk({"type": "block-start", "index": 0, "blockType": "text"})
    session.packed(["", "Hé", "llo", ""], [5, 0, 7])
    session.time += 20
    session.chunk({"type": "text-delta", "index": 0, "text": "!"})
    session.chunk({"type": "block-end", "index": 0, "block": {"type": "text", "text": "Héllo!"}})
    for name in ({"name": "bash"}, {}):
        data = {**place, "index": 1, "dt": [3], "id": "c1", **name, "args": ["", "{}"]}
        session.line({"type": "tool-call-chunks", "seq0": session.seq, "time0": session.time, "data": data}, 2)
        session.time += 20
    session.chunk({"type": "usage", "usage": {"inputTokens": 8, "outputTokens": 2}})
    session.chunk({"type": "finish", "reason": {"kind": "tool-calls"}})
    session.assistant(calls=[("c1", "bash", "{}")])
    session.call()
    session.result()
    session.step_end()
    session.turn_end()
    return session


def whole(version: int) -> Session:
    """A log with events of every layout: of v0 and v1 with lines of chunks, later with embedded streams."""
    if version < 2:
        return streamed(version)
    session = Session(version).turn("Hé").turn_with_call('{"a":1}')
    session.open_step()
    runs = [
        {"type": "text-chunks", "time0": session.time, "index": 0, "dt": [1, 2], "texts": ["", "a", "b"]},
        {"type": "tool-call-chunks", "time0": session.time, "index": 1, "dt": [], "id": "c", "name": "n", "args": [""]},
        {"type": "chunk", "time": session.time, "chunk": {"type": "usage", "usage": {"inputTokens": 3}}},
    ]
    session.add("assistant/attempt", session.place | {"stream": runs})
    first, last = ("start", "end") if version < 3 else ("startSeq", "endSeq")
    seq = session.seq - 2
    session.user(surfaceOp={"op": "replace", first: seq, last: seq}, sourceEventSeqs=[0, 1, seq])
    return session


# Spelling


def respelt(value: Any, rng: Random, numbers: tuple[str, ...]) -> str:
    """JSON text of the value as another program might write it; integers with one of these ends."""
    blank = rng.choice(("", "", " ", "\t \r"))
    if isinstance(value, dict):
        members = [
            f"{respelt(name, rng, numbers)}{blank}:{respelt(inner, rng, numbers)}" for name, inner in value.items()
        ]
        rng.shuffle(members)
        return f"{{{blank}{','.join(members)}}}{blank}"
    if isinstance(value, list):
        return f"[{f'{blank},'.join(respelt(inner, rng, numbers) for inner in value)}{blank}]"
    if isinstance(value, str):
        return f'{blank}"{"".join(spelt(character, rng) for character in value)}"'
    return f"{value}{rng.choice(numbers)}" if type(value) is int else json.dumps(value)


def spelt(character: str, rng: Random) -> str:
    if character.isascii() and character.isalpha() and rng.random() < 0.2:
        return f"\\u{ord(character):04x}"
    return json.dumps(character, ensure_ascii=rng.random() < 0.5)[1:-1]


def plain_line(line: bytes) -> bytes:
    """The line as the harness would write it."""
    try:
        return orjson.dumps(orjson.loads(line))
    except orjson.JSONDecodeError:
        return line


def respelt_line(line: bytes, rng: Random, numbers: tuple[str, ...]) -> bytes:
    """The line, or another one that means the same."""
    try:
        text = respelt(orjson.loads(line), rng, numbers)
    except orjson.JSONDecodeError:
        return line
    return rng.choice((line, line + b"\r", text.encode()))


def meaning(reading: Reading) -> dict[str, Any]:
    """All that a reading says but how the lines are spelt."""
    tables = {name: [without_spelling(row) for row in rows] for name, rows in reading.tables.items()}
    log = {name: value for name, value in reading.log.items() if name not in SIZES}
    # Digests of messages follow the order of their members.
    proof = json.loads(log.pop("proof") or "{}")
    return {**tables, "log": log, "used": proof.get("used"), "events as written": list(events_of(reading))}


def without_spelling(row: Row) -> Row:
    usage = row.get("invalid_usage")
    meant = {} if usage is None else {"invalid_usage": json.loads(usage)}
    return {name: value for name, value in row.items() if name not in SPELLING} | meant


def events_of(reading: Reading) -> Iterator[Any]:
    return stored_events(reading.log, reading.events, reading.runs)


def assert_same_meaning(raw: bytes, name: str, rng: Random, numbers: tuple[str, ...] = NUMBERS) -> None:
    lines = raw.split(b"\n")
    raw = b"\n".join(map(plain_line, lines))
    other = b"\n".join(respelt_line(line, rng, numbers) for line in lines)
    with lived(name) as log:
        plain, odd = log.read(raw), log.read(other)
        assert meaning(plain) == meaning(odd)
    assert read_bytes(raw, name).derive_messages() == read_bytes(other, name).derive_messages()
    assert_all_ways_agree(other, name, rng.randrange(len(other) + 1))


@given(st.integers(0, 2**32), st.sampled_from(VERSIONS))
def test_a_log_spelt_oddly_means_the_same(seed: int, version: int) -> None:
    assert_same_meaning(whole(version).raw, file_name(version), Random(seed))


@given(st.integers(0, 2**32), st.sampled_from(VERSIONS))
def test_a_drawn_log_spelt_oddly_means_the_same(seed: int, version: int) -> None:
    rng = Random(seed)
    drawn = Drawn(rng, version, "s1")
    for _ in range(3):
        drawn.play()
    assert_same_meaning(drawn.stored(), file_name(version), rng)


# One thing changed


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and item in a value: what holds it, and by which key."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(inner)


def changed(line: bytes, data: st.DataObject) -> bytes:
    """The line with one thing changed."""
    value = orjson.loads(line)
    holder, key = data.draw(st.sampled_from(list(places(value))))
    match data.draw(st.sampled_from(("replace", "drop", "add", "turn round", "next"))):
        case "replace":
            holder[key] = data.draw(st.sampled_from(ODD))
        case "drop":
            del holder[key]
        case "add":
            value[data.draw(st.sampled_from(("ignorable", "surfaceOp", "more")))] = data.draw(st.sampled_from(ODD))
        case "turn round" if isinstance(holder, dict):
            members = list(holder.items())
            holder.clear()
            holder.update(reversed(members))
        case "next" if type(holder[key]) is int:
            holder[key] += data.draw(st.integers(-2, 2))
    return dumps(value)


def assert_read_alike(data: st.DataObject, raw: bytes, version: int) -> None:
    assert_all_ways_agree(raw, file_name(version), data.draw(st.integers(0, len(raw))))


@given(st.data(), st.sampled_from(VERSIONS))
def test_a_line_with_one_thing_changed_is_read_alike_in_all_ways(data: st.DataObject, version: int) -> None:
    session = whole(version)
    at = data.draw(st.integers(0, len(session.lines) - 1))
    session.lines[at] = changed(session.lines[at], data)
    if data.draw(st.booleans()):
        twice = data.draw(st.sampled_from((b"data", b"seq", b"type", b"surfaceOp", b"stream")))
        session.lines[at] = session.lines[at].replace(b'"%s":' % twice, b'"%s":[true],"%s": ' % (twice, twice), 1)
    assert_read_alike(data, session.raw, version)


@given(st.data(), st.sampled_from(VERSIONS), st.integers(0, 2**32))
def test_a_line_with_one_thing_changed_spelt_oddly_means_the_same(data: st.DataObject, version: int, seed: int) -> None:
    """What is wrong in a line is found however it is spelt. An id that is a number stays as written."""
    session = whole(version)
    at = data.draw(st.integers(0, len(session.lines) - 1))
    session.lines[at] = changed(session.lines[at], data)
    assert_same_meaning(session.raw, file_name(version), Random(seed), PLAIN)


@given(st.data(), st.sampled_from(VERSIONS))
def test_a_log_with_one_byte_changed_is_read_alike_in_all_ways(data: st.DataObject, version: int) -> None:
    raw = bytearray(whole(version).raw)
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b'0-9."]},x\\\n\x00\xff'))
    assert_read_alike(data, bytes(raw), version)


@given(st.data(), st.sampled_from(VERSIONS))
def test_lines_left_out_or_moved_are_read_alike_in_all_ways(data: st.DataObject, version: int) -> None:
    session = whole(version)
    at, to = (data.draw(st.integers(0, len(session.lines) - 1)) for _ in range(2))
    line = session.lines.pop(at)
    if data.draw(st.booleans()):
        session.lines.insert(to, line)
    assert_read_alike(data, session.raw, version)
