"""SQLite stores as the first releases kept them (spec 1.7), made from the lines of raw logs of version 0."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import zstandard

from logs import dumps

# Tables with the columns, keys and marks that the spec names; what else the harness had there is not known.
SCHEMA = """
    pragma application_id = 0x44534850;
    pragma user_version = 17;
    create table persistence_state (singleton integer primary key, store_id text not null) strict;
    create table sessions (
        id text primary key, version integer, created_at integer, cwd text, parent_session text, seed_length integer,
        origin text, delegation_depth integer, agent_preset text, incarnation text, revision integer
    ) strict;
    create table events (
        session_id text, seq integer, type text, time integer, data any, source_event_seqs any, surface_op text,
        ignorable integer, primary key (session_id, seq)
    ) strict;
"""
COMPRESSED_FROM = 4096

Row = tuple[Any, ...]


def make_store(path: Path, logs: Iterable[Sequence[bytes]], *, wal: bool = False) -> Path:
    """A store at path with the sessions of these logs, each given as its lines."""
    with closing(sqlite3.connect(path)) as db:
        if wal:
            db.execute("pragma journal_mode = wal")
        db.executescript(SCHEMA)
        db.execute("insert into persistence_state values (1, 'store')")
        for lines in logs:
            add_session(db, lines)
        db.commit()
    return path


def add_session(db: sqlite3.Connection, lines: Sequence[bytes]) -> None:
    """The rows of a log of version 0 or 1."""
    header, *events = map(json.loads, lines)
    names = ("id", "version", "createdAt", "cwd", "parentSession", "seedLength", "origin", "delegationDepth")
    row = (*map(header.get, names), header.get("agentPreset"), "incarnation", 1)
    db.execute("insert into sessions values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.executemany(
        "insert into events values (?, ?, ?, ?, ?, ?, ?, ?)", ((header["id"], *event_row(event)) for event in events)
    )


def event_row(event: dict[str, Any]) -> Row:
    """seq, type, time, data, source_event_seqs, surface_op, ignorable of an event or a packed row."""
    text = dumps(event["data"])
    packed = zstandard.ZstdCompressor(level=3).compress(text)
    data = packed if len(text) >= COMPRESSED_FROM and len(packed) < len(text) else text.decode()
    if "seq0" in event:
        return event["seq0"], event["type"], event["time0"], data, None, None, 0
    sources = event.get("sourceEventSeqs")
    op = event.get("surfaceOp")
    return (
        event["seq"],
        event["type"],
        event["time"],
        data,
        None if sources is None else varints(sources),
        None if op is None else dumps(op).decode(),
        1 if event.get("ignorable") else None,
    )


def varints(seqs: Sequence[int | list[int]]) -> bytes:
    """The numbers, ranges expanded, as the first one and zigzag differences."""
    numbers: list[int] = []
    for item in seqs:
        numbers += range(item[0], item[1] + 1) if isinstance(item, list) else [item]
    steps = [after - before for before, after in pairwise(numbers)]
    return b"".join(map(varint, [*numbers[:1], *(2 * step if step >= 0 else -2 * step - 1 for step in steps)]))


def varint(number: int) -> bytes:
    """Unsigned LEB128."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
