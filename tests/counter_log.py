"""The reading of the second count: the lines of one log as plain events, packed rows taken apart.

It shares no code with the package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import zstandard

Object = dict[str, Any]
Place = tuple[int | None, int | None]

PACKED = {"text-chunks": "text-delta", "reasoning-chunks": "reasoning-delta", "tool-call-chunks": "tool-call-delta"}
OLD_NAMES = {"steering/message": "user/message", "tool/ptc-dispatch": "tool/code-dispatch"}
OLD_NAMES |= {"tool/ptc-dispatch-start": "tool/code-dispatch-start"}
OLD_NAMES |= {f"compact/{word}": f"compaction/{word}" for word in ("start", "summary", "end", "prune")}


@dataclass(frozen=True)
class Event:
    """One logical event: packed rows are taken apart."""

    line: int
    branch: int
    seq: int
    time: int
    type: str
    data: Object
    op: Any = None
    sources: Any = None

    @property
    def place(self) -> Place:
        return self.data.get("turn"), self.data.get("step")


@dataclass(frozen=True)
class Log:
    """A log: its header, all its events, and how many of them its parent wrote."""

    header: Object
    events: list[Event]
    cut: int

    def state(self) -> list[Event]:
        """The own events that tell of state: of every seq the one written last, in order of seq."""
        latest = {event.seq: event for event in self.events if event.seq >= self.cut}
        return [latest[seq] for seq in sorted(latest)]


def unpacked(stored: bytes) -> bytes:
    """The bytes of a file, decompressed frame by frame as far as they go."""
    if stored[:4] != b"\x28\xb5\x2f\xfd":
        return stored
    plain = b""
    while stored:
        frame = zstandard.ZstdDecompressor().decompressobj()
        plain += frame.decompress(stored)
        stored = frame.unused_data if frame.eof else b""
    return plain


def read(stored: bytes) -> Log:
    """The log of a file's bytes; lines that are no JSON object give nothing."""
    lines = unpacked(stored).split(b"\n")[:-1]
    header = json.loads(lines[0])
    events: list[Event] = []
    branch = due = 0
    for number, line in enumerate(lines[1:], start=2):
        for event in _logical(number, _object(line)):
            branch += event.seq < due
            due = event.seq + 1
            events.append(Event(**{**event.__dict__, "branch": branch}))
    return Log(header, events, _cut(header, events))


def _object(line: bytes) -> Object:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _logical(number: int, row: Object) -> Iterator[Event]:
    type_ = row.get("type", "")
    if type_ in PACKED and _is_whole(row):
        data, time = row["data"], row["time0"]
        place = {"turn": data["turn"], "step": data["step"]}
        for position, chunk, pause in _deltas(type_, data):
            time += pause
            yield Event(number, 0, row["seq0"] + position, time, "assistant/chunk", place | {"chunk": chunk})
    elif "/" in type_ and isinstance(row.get("seq"), int):
        data = _modern(type_, row.get("data") or {})
        type_ = OLD_NAMES.get(type_, type_)
        yield Event(number, 0, row["seq"], row["time"], type_, data, row.get("surfaceOp"), row.get("sourceEventSeqs"))


def _is_whole(row: Object) -> bool:
    data = row.get("data") or {}
    texts = data.get("texts") or data.get("args") or ()
    return bool(texts) and len(data.get("dt", ())) == len(texts) - 1


def _deltas(type_: str, run: Object) -> Iterator[tuple[int, Object, int]]:
    """Position, chunk and pause before it of every member of a run."""
    texts = run.get("texts") or run.get("args")
    for position, (text, pause) in enumerate(zip(texts, [0, *run["dt"]], strict=True)):
        chunk = {"type": PACKED[type_], "text": text}
        yield position, chunk | {key: run[key] for key in ("id", "name") if key in run}, pause


def _modern(type_: str, data: Object) -> Object:
    """The payload with the members that count under the names of today."""
    if type_ == "assistant/message" and "message" not in data:
        source = {"kind": "model", **data.get("provenance", {})}
        return data | {"message": {"content": data.get("content", []), "source": source}}
    if type_ == "tool/result" and "message" not in data:
        block = {"type": "tool-result", "toolCallId": data.get("callId"), "isError": data.get("isError")}
        return data | {"message": {"source": {"callId": data.get("callId")}, "content": [block]}}
    return data


def _cut(header: Object, events: list[Event]) -> int:
    if header["version"] < 2:
        return int(header.get("seedLength", 0))
    marks = [e.seq for e in events if e.type == "session/end-seed" and e.data.get("inherited") is True]
    return marks[-1] if marks and header.get("isSeeded") else 0


def stream_chunks(event: Event) -> Iterator[tuple[int, Object]]:
    """Time and chunk of everything in an event's embedded stream."""
    for record in event.data.get("stream", ()):
        if record["type"] == "chunk":
            yield record["time"], record["chunk"]
        else:
            time = record["time0"]
            for _, chunk, pause in _deltas(record["type"], record):
                time += pause
                yield time, chunk
