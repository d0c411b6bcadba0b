"""Logs made to break a reader: each gives rows and findings, in bounded time and memory, and never an exception."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from lakes import rows
from logs import (
    VERSIONS,
    Session,
    Stored,
    as_raw,
    as_zstd,
    codes,
    dumps,
    event_texts,
    faults,
    file_name,
    header,
    read,
    read_bytes,
    text,
    write,
)
from turnlake.api import connect
from turnlake.cli import main
from turnlake.errors import SourceError
from turnlake.lake.convert import Batch, convert
from turnlake.messages.log import read_log
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source

HALF = "\ud83d"
NUMBERS = [-1, 0, 1.0, 1.5, 2**53, 2**63, 2**64, -(2**63) - 1, 1e308, True, False]
ODD_VALUES: list[Any] = [
    *NUMBERS,
    None,
    "",
    "x",
    HALF,
    "\x00",
    [],
    [[]],
    [None],
    [1, "x"],
    {},
    {"x": None},
    {HALF: HALF},
]


def survives(session: Session) -> Stored:
    """The session as stored, once it is known to come back as it was read."""
    stored = Stored(session.raw, file_name(session.version))
    assert stored.replayed() == event_texts(read(session))
    return stored


def event_line(data: bytes, **members: Any) -> bytes:
    """An event line around data as it is."""
    line = dumps({"type": "todo/write", "seq": 0, "time": 5} | members)
    return line[:-1] + b',"data":' + data + b"}"


# Files

NOISE = {
    "nothing": b"",
    "newlines": b"\n" * 1000,
    "zeros": b"\x00" * 10_000,
    "every byte": bytes(range(256)) * 40,
    "half a gigabyte claimed": b"\x28\xb5\x2f\xfd\xa4\x00\x00\x00\x20" + b"\x00" * 20,
    "gzip": b"\x1f\x8b\x08\x00" + bytes(100),
    "UTF-16": '{"type":"session"}\n'.encode("utf-16"),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
}


@pytest.mark.parametrize("name", ["session.v4.jsonl", "session.v4.jsonl.zstd", "session.jsonl", "loose.jsonl"])
@pytest.mark.parametrize("noise", NOISE)
def test_noise(noise: str, name: str) -> None:
    log = read_bytes(NOISE[noise], name)
    assert log.events == ()
    assert (log.verdict.verdict == "refused") is (name.startswith("session"))
    stored = Stored(NOISE[noise], name)
    assert stored.events == stored.runs == []


def test_a_byte_order_mark_spoils_the_header_and_nothing_else() -> None:
    log = read_bytes(b"\xef\xbb\xbf" + Session(4).turn().raw)
    assert (log.verdict.verdict, log.verdict.reason, log.verdict.dialect) == ("refused", "no_header", "headerless")
    assert len(log.events) == 6


def test_a_folder_with_the_name_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "session.v4.jsonl").mkdir()
    with pytest.raises(SourceError):
        read_log(tmp_path / "session.v4.jsonl")
    assert find_logs([parse_source(str(tmp_path))]).logs == ()


def test_everything_at_once_builds(tmp_path: Path) -> None:
    """No single log spoils a build, whatever it holds; the database holds what can be read of each."""
    for number, (name, noise) in enumerate(NOISE.items()):
        write(tmp_path / "root", noise, session=f"{number} {name}")
    session = Session(4, id="good").turn()
    write(tmp_path / "root", session.raw, session="good")
    for value in ODD_VALUES:
        if HALF not in json.dumps(value, ensure_ascii=False):
            session.add("todo/write", {"turn": value, "value": value})
            session.add(
                "user/message", {"id": value, "role": value, "content": value, "source": value}, surfaceOp="append"
            )
    write(tmp_path / "root", session.raw.replace(b'"good"', b'"odd"'), session="odd")
    lake = tmp_path / "lake"
    assert main(["build", str(tmp_path / "root"), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    with connect(lake) as db:
        assert rows(db, "select turn_count from marts.sessions where session_id = 'good'") == [{"turn_count": 1}]
        assert rows(db, "select count(*) as n from raw.logs") == [{"n": len(NOISE) + 2}]


# Long, deep, big


def test_a_line_of_200_mb(tmp_path: Path) -> None:
    """It is read where it is allowed to be so long, and is a finding where it is not."""
    session = Session(4).turn()
    path = tmp_path / "session.v4.jsonl"
    with path.open("wb") as file:
        file.write(session.raw)
        file.write(b'{"type":"todo/write","seq":6,"time":5,"data":{"x":"')
        for _ in range(200):
            file.write(b"x" * 1_000_000)
        file.write(b'"}}\n')
    logs = find_logs([parse_source(str(path))]).logs
    for max_line, count, unread in ((256_000_000, 7, 0), (100_000_000, 6, 1)):
        [one] = convert(Batch("p.parquet", logs), tmp_path / str(max_line), max_line)
        assert one.row is not None
        assert (one.row["event_count"], one.row["unread_line_count"]) == (count, unread)


def test_an_overlong_line_in_the_middle_of_everything() -> None:
    session = Session(0).turn().line(dumps({"type": "todo/write", "seq": 99, "x": "y" * 5000})).turn()
    stored = Stored(session.raw, "session.jsonl", max_line=4000)
    assert stored.unread_lines == {17}
    assert stored.log["event_count"] == session.seq


def test_a_header_that_is_too_long() -> None:
    log = read_bytes(Session(4, agentPreset="x" * 5000).turn().raw, max_line=2000)
    assert (log.verdict.verdict, log.verdict.reason) == ("refused", "no_header")


@pytest.mark.parametrize("depth", [100, 190, 300, 900, 1000, 1020, 1030, 100_000])
@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"x":', b"}")], ids=["lists", "objects"])
def test_deep_nesting_is_a_row_or_a_finding(depth: int, brackets: tuple[bytes, bytes]) -> None:
    opening, closing = brackets
    inner = opening * depth + b"1" + closing * depth
    for extra in ({}, {"favourite": 1}):
        session = Session(0).turn().line(event_line(b'{"x":' + inner + b"}", seq=15, **extra)).turn()
        stored = Stored(session.raw, "session.jsonl")
        found = stored.unread_lines
        assert found <= {17}
        assert len(stored.events) + len(found) == 13


@pytest.mark.parametrize("depth", [100, 300, 600, 900])
def test_deep_nesting_with_half_a_surrogate_pair(depth: int) -> None:
    session = Session(4).line(event_line(b'{"x":' + b"[" * depth + b'"\\ud83d"' + b"]" * depth + b"}"))
    stored = Stored(session.raw)
    assert len(stored.events) + len(stored.unread_lines) == 1


def test_deep_nesting_in_a_message_and_its_stream() -> None:
    inner: Any = []
    for _ in range(500):
        inner = [inner]
    session = Session(4).open_step()
    message = {"id": "a", "role": "assistant", "content": [{"type": "x", "x": inner}], "source": {"kind": "model"}}
    stream = [{"type": "chunk", "time": 5, "chunk": {"type": "x", "x": inner}}]
    session.add("assistant/message", session.place | {"message": message, "stream": stream}, surfaceOp="append")
    survives(session)


def test_a_bomb(tmp_path: Path) -> None:
    """256 KB for 8 GB: what came before is read, and the rest is a finding at once."""
    block = (128 << 10 << 3 | 2).to_bytes(3, "little") + b"a"
    bomb = b"\x28\xb5\x2f\xfd\x00\x68" + block * 65_536
    path = write(tmp_path, as_zstd(Session(4).turn().lines) + bomb, "session.v4.jsonl.zstd")
    started = time.monotonic()
    log = read_log(path)
    assert (log.verdict.verdict, log.verdict.reason, log.verdict.event_count) == ("refused", "corrupt", 6)
    assert "decompression_bomb" in codes(log)
    assert time.monotonic() - started < 60


def test_many_short_lines() -> None:
    log = read_bytes(as_raw([*Session(4).lines, *[b"{}"] * 20_000]))
    assert log.verdict.unread_line_count == 20_000


def test_many_replacements_of_a_long_surface_take_no_square_time() -> None:
    session = Session(4)
    for _ in range(2000):
        session.user()
    for seq in range(2000):
        session.user(surfaceOp={"op": "replace", "startSeq": seq, "endSeq": seq}, sourceEventSeqs=[seq])
    started = time.monotonic()
    assert read(session).verdict.verdict == "clean"
    assert time.monotonic() - started < 20


# Numbers


@pytest.mark.parametrize("value", [*NUMBERS, 10**400], ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize(
    "member", ["seq", "time", "turn", "step", "sources", "start", "retry", "usage", "seq0", "time0", "index", "dt"]
)
def test_any_number_in_every_place(member: str, version: int, value: Any) -> None:
    session = Session(version).open_step()
    line: dict[str, Any] = {"type": "llm/retry", "seq": 3, "time": 5, "data": {"retryId": "r", "turn": 1, "step": 1}}
    names = ("start", "end") if version < 3 else ("startSeq", "endSeq")
    if member in ("seq", "time"):
        line[member] = value
    elif member in ("turn", "step", "retry"):
        line["data"][member] = value
    elif member == "usage":
        message = {"id": "a", "role": "assistant", "content": [], "source": {"kind": "model"}}
        line |= {
            "type": "assistant/message",
            "surfaceOp": "append",
            "data": {"message": message, "usage": {"inputTokens": value}},
        }
    elif member in ("sources", "start"):
        data = {"id": "m", "role": "user", "content": [], "source": {"kind": "user"}}
        line |= {"type": "user/message", "surfaceOp": "append", "data": data}
        if member == "sources":
            line["sourceEventSeqs"] = [value]
        else:
            line["surfaceOp"] = {"op": "replace", names[0]: value, names[1]: value}
    else:
        run = {"turn": 1, "step": 1, "index": 0, "dt": [1], "texts": ["a", "b"]}
        row: dict[str, Any] = {"type": "text-chunks", "seq0": 3, "time0": 5, "data": run}
        if member in row:
            row[member] = value
        else:
            run[member] = [value] if member == "dt" else value
        line = row
    session.line(line)
    stored = survives(session)
    lines = {row["line"] for row in (*stored.events, *stored.runs)} | {row["line"] for row in stored.findings}
    assert 5 in lines


@pytest.mark.parametrize(
    "literal",
    [b"NaN", b"Infinity", b"-Infinity", b"nan", b"01", b"+1", b"1.", b".5", b"0x1", b"1e", b"'x'", b"undefined"],
)
def test_what_is_no_json_is_an_unread_line(literal: bytes) -> None:
    log = read_bytes(as_raw([*Session(4).lines, event_line(b'{"x":' + literal + b"}")]))
    assert (log.verdict.verdict, log.verdict.unread_line_count) == ("removable_tail", 1)


# Text


@pytest.mark.parametrize(
    "value", [HALF, "\udc00", "a\ud83d\ud83db", "\x00", "\u2028\u2029", "\ufeff", "\uffff", "🐟", "\x7f\x1b[31m"]
)
@pytest.mark.parametrize(
    "place", ["type", "key", "id", "name", "arguments", "text", "plugin", "title", "chunk", "header"]
)
def test_any_text_in_every_place(place: str, value: str) -> None:
    session = Session(4, **({"id": value, "cwd": f"/{value}"} if place == "header" else {})).open_step()
    if place == "type":
        session.add(f"x/{value}", {}, ignorable=True)
    elif place == "key":
        session.add("todo/write", {value: {value: [value]}})
    elif place in ("id", "name", "arguments"):
        call = {"id": "c", "name": "n", "arguments": "{}"} | {place: value}
        session.assistant("", [(call["id"], call["name"], call["arguments"])])
        session.call(call["id"], call["name"], call["arguments"])
        session.result(call["id"], value)
    elif place == "chunk":
        stream = [{"type": "text-chunks", "time0": 5, "index": 0, "dt": [1], "texts": [value, value]}]
        session.add("assistant/attempt", session.place | {"stream": stream})
    elif place == "plugin":
        source = {"kind": value, "name": value, "plugin": value}
        session.add(
            "user/message",
            {"id": value, "role": "user", "content": [text(value)], "source": source},
            surfaceOp="append",
        )
    else:
        session.add("session/title", {"title": value})
    survives(session)


@pytest.mark.parametrize("version", VERSIONS)
def test_line_endings_and_blanks_around_members(version: int) -> None:
    session = Session(version).turn().turn_with_call()
    spaced = [
        orjson.dumps(orjson.loads(line), option=orjson.OPT_INDENT_2).replace(b"\n", b"\r\t ") for line in session.lines
    ]
    for lines in ([line + b"\r" for line in session.lines], spaced, [b" \t" + line + b" " for line in session.lines]):
        log = read_bytes(as_raw(lines), file_name(version))
        assert (log.verdict.verdict, faults(log)) == ("clean", ())
        stored = Stored(as_raw(lines), file_name(version))
        assert stored.replayed() == event_texts(log) == event_texts(read(session))


@pytest.mark.parametrize("version", VERSIONS)
def test_members_in_any_order(version: int) -> None:
    session = Session(version).turn().turn_with_call()
    for order in (sorted, lambda keys: sorted(keys, reverse=True)):
        lines = [session.lines[0]]
        for line in session.lines[1:]:
            value = json.loads(line)
            lines.append(dumps({key: value[key] for key in order(value)}))
        assert Stored(as_raw(lines), file_name(version)).replayed() == event_texts(read(session))


def test_the_last_of_two_equal_keys_counts() -> None:
    line = b'{"type":"a/b","type":"todo/write","seq":9,"seq":0,"time":1,"time":5,"data":{},"data":{"x":1,"x":2}}'
    session = Session(4).line(line)
    [row] = survives(session).events
    assert (row["type"], row["seq"], row["time_ms"], json.loads(row["payload"])["x"]) == ("todo/write", 0, 5, 2)


def test_two_headers_in_one_line() -> None:
    line = dumps(header(4))[:-1] + b',"version":3,"isSeeded":false}'
    log = read_bytes(as_raw([line]), "session.v4.jsonl")
    assert (log.verdict.verdict, log.verdict.reason) == ("refused", "version_mismatch")


ENVELOPE: dict[str, Any] = {
    "type": "user/message",
    "seq": 3,
    "time": 5,
    "data": {"id": "m", "role": "user", "content": [], "source": {"kind": "user"}},
    "surfaceOp": "append",
    "sourceEventSeqs": [2],
    "ignorable": True,
}


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: json.dumps(value)[:20])
@pytest.mark.parametrize("member", [*ENVELOPE, "extra"])
def test_any_value_for_every_member(member: str, value: Any) -> None:
    stored = survives(Session(4).open_step().line(ENVELOPE | {member: value}))
    assert 5 in {row["line"] for row in (*stored.events, *stored.findings)}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replacement_in_a_log_whose_header_states_no_version_comes_back(version: int) -> None:
    """It is written as the version of the file's name has it, by which such a log is read."""
    session = Session(version, version=[]).open_step()
    first, last = ("start", "end") if version < 3 else ("startSeq", "endSeq")
    session.user(surfaceOp={"op": "replace", first: 2, last: 2}, sourceEventSeqs=[2])
    survives(session)


MB = 1 << 20


@pytest.mark.parametrize(
    ("data", "unread"),
    [
        (b'{"x":"' + b"{},[]:," * (2 * MB) + b'"}', 0),
        (b'{"x":[' + b"{}," * (7 * MB) + b"1]}", 1),
        (b'{"x":[' + b"[]," * (7 * MB) + b"1]}", 1),
        (b'{"x":["\\"' + b"x" * (9 * MB) + b'"]}', 0),
        (b"{" + b",".join(b'"k%d":0' % key for key in range(MB)) + b"}", 0),
    ],
    ids=["brackets in a text", "objects", "lists", "a text", "a million keys"],
)
def test_a_line_that_would_take_too_much_memory_is_a_finding(data: bytes, unread: int) -> None:
    log = read_bytes(Session(4).turn().raw + event_line(data, seq=6) + b"\n")
    assert (log.verdict.unread_line_count, len(log.events)) == (unread, 7 - unread)
