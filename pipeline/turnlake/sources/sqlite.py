"""The SQLite store of the first releases (spec 1.7): each of its sessions is a log, its rows lines of that log.

The lines are made here, in the form of a raw log of the version the session states, so that everything behind reads
one form. What is wrong with a row becomes a line that is wrong in the same way: one that is no record opens a tail or
breaks the log by the rule that holds for lines.
"""

from __future__ import annotations

import errno
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, BinaryIO, NamedTuple

import orjson

from turnlake.findings import Finding, shown
from turnlake.sources.archive import Entry, Listing
from turnlake.sources.container import SQLITE_MAGIC, open_regular
from turnlake.sources.frames import FrameError, read_pieces
from turnlake.sources.lines import MAX_LINE
from turnlake.sources.logfile import decode_session_id, encode_session_id
from turnlake.sources.sqlite_file import changed_at, connected

APPLICATION_ID = 0x44534850
SCHEMA_VERSION = 17
# A folder of the harness holds no longer name.
LONGEST_ENTRY = 255
# SQLite applies its bound to queries as well.
_LEAST_BOUND = 1 << 16
_VARINT_BYTES = 10

_HEADER_MEMBERS = {
    "version": "version",
    "id": "id",
    "createdAt": "created_at",
    "cwd": "cwd",
    "parentSession": "parent_session",
    "seedLength": "seed_length",
    "origin": "origin",
    "delegationDepth": "delegation_depth",
    "agentPreset": "agent_preset",
}
_MARKS = ("application_id", "user_version")
_TABLES = "select count(*) from sqlite_schema where type = 'table' and rootpage > 0 and name in ('sessions', 'events')"
_SESSIONS = """
    select s.id, typeof(s.id), coalesce(e.row_count, 0)
    from sessions as s
    left join (select session_id, count(*) as row_count from events group by session_id) as e on e.session_id = s.id
"""
_EVENTS = """
    select
        seq, type, time, typeof(data), data, typeof(source_event_seqs), source_event_seqs,
        typeof(surface_op), surface_op, ignorable
    from events
    where session_id = cast(? as text)
"""
_NEXT_SEQ = "select min(seq) from events where session_id = cast(? as text) and seq > ?"
_BELOW_ALL = -(2**63)


class _BadRow(Exception):
    """A row that is no event and no run; the text says why."""


def list_sessions(path: str, *, is_named: bool) -> tuple[Listing, int]:
    """The sessions of a store as entries, by name, and when it changed last, Unix ns.

    `is_named` says that the user meant this file to be read.

    A size is the session's share of the store, by rows. What can't be read is a finding, and so is a database of
    another program: of no weight, unless it was named. OSError where the file can't be opened.
    """
    with open_regular(path) as file:
        if file.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
            return _foreign("no SQLite database", is_named), 0
    size, mtime_ns = changed_at(path)
    try:
        with connected(path) as database:
            return _listing(database, size, is_named), mtime_ns
    except sqlite3.Error as error:
        return _unread(f"damaged: {error}"), mtime_ns


def open_session(path: str, entry: str, mtime_ns: int, max_line: int = MAX_LINE) -> BinaryIO:
    """The lines of a session of the store, forward only. Byte offsets in it are those of the lines made here.

    OSError, here and while reading, where the store or the session is gone, damaged, or changed meanwhile.
    """
    session_id = _raw_id(entry)
    with ExitStack() as stack:
        try:
            database = stack.enter_context(connected(path, mtime_ns))
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(max_line, _LEAST_BOUND))
            header = _header(database, session_id)
        except sqlite3.Error as error:
            raise _damaged(error) from error
        lines = _lines(database, session_id, header, max_line)
        return io.BufferedReader(_LineStream(lines, stack.pop_all()), 1 << 20)


# What is in a store


def _unread(detail: str) -> Listing:
    return Listing((), ((None, Finding("store_unreadable", detail)),))


def _foreign(detail: str, is_named: bool) -> Listing:
    return _unread(detail) if is_named else Listing((), ((None, Finding("ignored_file", detail)),))


def _listing(database: sqlite3.Connection, size: int, is_named: bool) -> Listing:
    application, version = (database.execute(f"pragma {name}").fetchone()[0] for name in _MARKS)
    if application != APPLICATION_ID:
        return _foreign(f"a database of another program: application_id {application:#x}", is_named)
    if version != SCHEMA_VERSION:
        return _unread(f"schema version {version}; {SCHEMA_VERSION} is the one that is known")
    if database.execute(_TABLES).fetchone() != (2,):
        return _unread("it has no tables sessions and events")
    return _sessions(database, size)


def _sessions(database: sqlite3.Connection, size: int) -> Listing:
    (row_count,) = database.execute("select count(*) from events").fetchone()
    entries: list[Entry] = []
    findings: list[tuple[str | None, Finding]] = []
    listed = 0
    for raw_id, kind, count in database.execute(_SESSIONS):
        listed += count
        entry = _entry(raw_id, kind)
        if entry is None:
            detail = f"{count} rows of a session whose id is no id: {shown(repr(raw_id)[:100])}"
            findings.append((None, Finding("store_session_unread", detail)))
        else:
            entries.append(Entry(entry, size * count // row_count if row_count else 0))
    if listed != row_count:
        findings.append((None, Finding("store_session_unread", f"{row_count - listed} rows of no session")))
    return Listing(tuple(sorted(entries)), tuple(findings))


def _entry(raw_id: Any, kind: bytes) -> str | None:
    """The name of a session as an entry: that of its folder in a sessions root; None for what can't be one."""
    if kind != b"text" or not raw_id:
        return None
    name = encode_session_id(raw_id.decode("utf-8", "surrogateescape"))
    return name if len(name) <= LONGEST_ENTRY else None


def _raw_id(entry: str) -> bytes:
    session_id = decode_session_id(entry)
    if session_id is None:
        raise OSError(errno.ENOENT, "the store has no such session", entry)
    return session_id.encode("utf-8", "surrogateescape")


# From rows to lines


def _header(database: sqlite3.Connection, session_id: bytes) -> bytes:
    columns = ", ".join(_HEADER_MEMBERS.values())
    row = database.execute(f"select {columns} from sessions where id = cast(? as text)", (session_id,)).fetchone()
    if row is None:
        raise FileNotFoundError(errno.ENOENT, "the store has no such session any more")
    stated = {name: value for name, value in zip(_HEADER_MEMBERS, row, strict=True) if value is not None}
    return _object({"type": b'"session"'} | {name: _json(value) for name, value in stated.items()})


def _lines(database: sqlite3.Connection, session_id: bytes, header: bytes, max_line: int) -> Iterator[bytes]:
    yield header
    for row in _rows(database, session_id):
        try:
            yield _line(row, max_line)
        except _BadRow as error:
            yield f"malformed row, seq {row.seq}: {error}\n".encode()


class _Row(NamedTuple):
    """A row of `events`; text and blobs are bytes, told apart by the types beside them."""

    seq: int
    type: Any
    time: Any
    data_type: bytes
    data: Any
    sources_type: bytes
    sources: Any
    surface_type: bytes
    surface_op: Any
    ignorable: Any


def _rows(database: sqlite3.Connection, session_id: bytes) -> Iterator[_Row]:
    """The rows of a session in order; of one that is longer than allowed no more than its seq."""
    seq = _BELOW_ALL
    while True:
        try:
            for values in database.execute(f"{_EVENTS} and seq > ? order by seq", (session_id, seq)):
                row = _Row(*values)
                seq = row.seq
                yield row
            return
        except sqlite3.DataError:
            # A cursor looks one row ahead: the next row may be the one before that which is too long.
            (seq,) = database.execute(_NEXT_SEQ, (session_id, seq)).fetchone()
            yield _one_row(database, session_id, seq)


def _one_row(database: sqlite3.Connection, session_id: bytes, seq: int) -> _Row:
    try:
        return _Row(*database.execute(f"{_EVENTS} and seq = ?", (session_id, seq)).fetchone())
    except sqlite3.DataError:
        return _Row(seq, None, None, b"longer than the longest line allowed", None, b"null", None, b"null", None, None)


def _line(row: _Row, max_line: int) -> bytes:
    """The line of a row. Raises _BadRow."""
    data = _json_text(_data(row, max_line), "data")
    if row.ignorable == 0:
        if row.sources is not None or row.surface_op is not None:
            raise _BadRow("a packed run with sourceEventSeqs or surfaceOp")
        return _object({"type": _json(row.type), "seq0": _json(row.seq), "time0": _json(row.time), "data": data})
    members = {"type": _json(row.type), "seq": _json(row.seq), "time": _json(row.time), "data": data}
    if row.sources is not None:
        members["sourceEventSeqs"] = _sources(row)
    if row.surface_op is not None:
        members["surfaceOp"] = _json_text(_of_type(row.surface_op, row.surface_type, b"text"), "surface_op")
    if row.ignorable is not None:
        if row.ignorable != 1:
            raise _BadRow(f"ignorable is {shown(repr(row.ignorable)[:50])}")
        members["ignorable"] = b"true"
    return _object(members)


def _data(row: _Row, max_line: int) -> bytes:
    """The JSON text of a row's data, decompressed where it is a blob."""
    if row.data_type == b"blob":
        return _decompressed(row.data, max_line)
    return _of_type(row.data, row.data_type, b"text")


def _of_type(value: Any, kind: bytes, wanted: bytes) -> bytes:
    if kind != wanted:
        raise _BadRow(f"a column is {kind.decode()}, not {wanted.decode()}")
    content: bytes = value
    return content


def _decompressed(blob: bytes, max_line: int) -> bytes:
    """The content of a blob that is one zstd frame, as far as a line may be long."""
    pieces: list[bytes] = []
    size, is_whole = 0, False
    try:
        for piece in read_pieces(io.BytesIO(blob)):
            size += len(piece.data)
            if piece.frame > 0 or piece.is_torn:
                break
            if size > max_line:
                raise _BadRow(f"data decompresses to more than {max_line} bytes, longer than the longest line allowed")
            pieces.append(piece.data)
            is_whole = piece.ends_frame
        else:
            if is_whole:
                return b"".join(pieces)
    except FrameError as error:
        raise _BadRow(f"data is a damaged zstd frame: {error}") from error
    raise _BadRow("data is not one whole zstd frame")


def _sources(row: _Row) -> bytes:
    """The sourceEventSeqs of a row. Malformed ones are told in their place: the event is worth keeping."""
    try:
        if row.sources_type == b"blob":
            return orjson.dumps(decode_seqs(row.sources))
        return _json_text(_of_type(row.sources, row.sources_type, b"text"), "source_event_seqs")
    except _BadRow as error:
        return orjson.dumps(str(error))


def decode_seqs(blob: bytes) -> list[int]:
    """The numbers in a blob of varints: the first, then zigzag differences (spec 1.7). Raises an error for others."""
    numbers: list[int] = []
    seq = value = shift = 0
    for byte in blob:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            if shift >= 7 * _VARINT_BYTES:
                raise _BadRow("source_event_seqs has a varint of more than 64 bits")
            continue
        if shift and not byte:
            raise _BadRow("source_event_seqs has a varint that is not minimal")
        seq = value if not numbers else seq + ((value >> 1) ^ -(value & 1))
        if not 0 <= seq < 2**53:
            raise _BadRow("source_event_seqs names no event")
        numbers.append(seq)
        value = shift = 0
    if shift:
        raise _BadRow("source_event_seqs ends inside a varint")
    return numbers


def _json_text(text: bytes, column: str) -> bytes:
    """JSON as stored, on one line. Raises _BadRow for what is not one JSON value."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            # Lone surrogates, large numbers, bytes that are no UTF-8: what reads the line has its rules for them.
            json.loads(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise _BadRow(f"{column} is no JSON") from None
    # A newline in valid JSON stands between its tokens.
    return text.replace(b"\n", b" ")


def _json(value: Any) -> bytes:
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _object(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), value) for name, value in members.items()) + b"}\n"


def _damaged(error: sqlite3.Error) -> OSError:
    return OSError(errno.EIO, f"the store can't be read: {error}")


class _LineStream(io.RawIOBase):
    """Lines as a raw stream whose only error is OSError."""

    def __init__(self, lines: Iterator[bytes], opened: ExitStack) -> None:
        self._lines = lines
        self._opened = opened
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            while not self._held:
                line = next(self._lines, None)
                if line is None:
                    self._opened.close()
                    return 0
                self._held = memoryview(line)
        except sqlite3.Error as error:
            raise _damaged(error) from error
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        # Whether the store changed matters to whoever has read to the end, and was told there.
        with suppress(OSError):
            self._opened.close()
        super().close()
