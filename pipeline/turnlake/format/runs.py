"""Runs of stream chunks: packed rows (spec 4.1), embedded streams (4.4), and how they expand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from turnlake.format.values import MAX_SAFE, BadRecord, Object, is_count, is_int, is_text

# Row or record type -> type of its chunks.
PACKED_TYPES = {
    "text-chunks": "text-delta",
    "reasoning-chunks": "reasoning-delta",
    "tool-call-chunks": "tool-call-delta",
}
ROW_TYPES = {chunk_type: row_type for row_type, chunk_type in PACKED_TYPES.items()}

_ROW_KEYS = {"type", "seq0", "time0", "data"}
_DELTA_KEYS = {"turn", "step", "index", "dt", "texts"}
_CALL_KEYS = {"turn", "step", "index", "id", "dt", "args"}
_STREAM_DELTA_KEYS = {"type", "time0", "index", "dt", "texts"}
_STREAM_CALL_KEYS = {"type", "time0", "index", "id", "dt", "args"}
_STREAM_CHUNK_KEYS = {"type", "time", "chunk"}


@dataclass(slots=True)
class Run:
    """Consecutive deltas of one block, or one chunk that stands alone (`chunk` as it was read, dt is None).

    Times are Unix ms; `dt` holds the ms from each chunk to the next. `texts` is None for a chunk that is no
    delta. `first_token_ms` is the time of the first delta that holds anything.
    """

    chunk_type: str
    time_ms: int
    last_time_ms: int
    index: int | None = None
    dt: list[int] | None = None
    texts: list[str] | None = None
    call_id: str | None = None
    tool_name: str | None = None
    chunk: Object | None = None
    first_token_ms: int | None = None
    turn: int | None = None
    step: int | None = None
    # False where a time step is negative.
    is_rising: bool = True

    @property
    def count(self) -> int:
        """Number of chunks."""
        return 1 if self.texts is None else len(self.texts)

    def chunks(self) -> Iterator[tuple[int, Object]]:
        """Each chunk with its time."""
        if self.chunk is not None:
            yield self.time_ms, self.chunk
            return
        for time, text in zip(accumulate(self.dt or (), initial=self.time_ms), self.texts or (), strict=True):
            yield time, self._delta(text)

    def _delta(self, text: str) -> Object:
        if self.chunk_type != "tool-call-delta":
            return {"type": self.chunk_type, "index": self.index, "text": text}
        delta = {"type": self.chunk_type, "index": self.index, "id": self.call_id, "argumentsDelta": text}
        return delta if self.tool_name is None else delta | {"name": self.tool_name}


def packed_run(row: Object, raw: bytes) -> Run:
    """The run of a packed row of v0 or v1. Raises BadRecord for any breach of spec 4.1."""
    data = row.get("data")
    is_call = row["type"] == "tool-call-chunks"
    if row.keys() != _ROW_KEYS or not isinstance(data, dict):
        raise BadRecord("packed row with missing or unexpected members")
    if data.keys() != _DELTA_KEYS and not (is_call and data.keys() - {"name"} == _CALL_KEYS):
        raise BadRecord("packed row with missing or unexpected members in its data")
    if is_call is not ("args" in data):
        raise BadRecord("packed row of the wrong kind")
    if not (is_count(data["turn"]) and is_count(data["step"]) and is_count(row["seq0"])):
        raise BadRecord("packed row with a bad turn, step or seq0")
    run = _run(row["type"], row["time0"], data, raw)
    if is_call and not is_text(run.call_id):
        raise BadRecord("packed row without a call id")
    run.turn, run.step = data["turn"], data["step"]
    return run


def stream_runs(stream: object, raw: bytes) -> list[Run]:
    """The runs of an embedded stream (v2 and later). Raises BadRecord for any breach of spec 4.4."""
    if not isinstance(stream, list):
        raise BadRecord("stream is not a list")
    return [_stream_run(record, raw) for record in stream]


def _stream_run(record: Any, raw: bytes) -> Run:
    if not isinstance(record, dict):
        raise BadRecord("stream record that is no object")
    kind, keys = record.get("type"), record.keys()
    if type(kind) is not str:
        raise BadRecord("stream record without a type")
    if kind == "chunk" and keys == _STREAM_CHUNK_KEYS:
        run = single_run(record["chunk"], record["time"])
        if run is not None:
            return run
    if kind == "tool-call-chunks" and keys - {"name"} == _STREAM_CALL_KEYS:
        return _run(kind, record["time0"], record, raw)
    if kind in PACKED_TYPES and kind != "tool-call-chunks" and keys == _STREAM_DELTA_KEYS:
        return _run(kind, record["time0"], record, raw)
    raise BadRecord("stream record of an unknown kind or with unexpected members")


def single_run(chunk: object, time: object) -> Run | None:
    """The run of one chunk that stands by itself; None where it is no chunk or has no time."""
    if type(chunk) is not dict or not is_int(time):
        return None
    kind, index = chunk.get("type"), chunk.get("index")
    if type(kind) is not str or not kind:
        return None
    time = int(time)
    run = Run(kind, time, time, index if is_count(index) else None, None, None, None, None, chunk)
    if kind in ROW_TYPES:
        _describe_delta(run, chunk)
    return run


def _describe_delta(run: Run, chunk: Object) -> None:
    """What a delta that stands alone holds, as far as it is text."""
    text, name = chunk.get("argumentsDelta" if run.chunk_type == "tool-call-delta" else "text"), chunk.get("name")
    if isinstance(text, str):
        run.texts = [text]
    if run.chunk_type == "tool-call-delta":
        run.call_id = chunk["id"] if isinstance(chunk.get("id"), str) else None
        run.tool_name = name if isinstance(name, str) else None
    if text or run.tool_name:
        run.first_token_ms = run.time_ms


def _run(row_type: str, time0: object, data: Object, raw: bytes) -> Run:
    """The run of a packed row's or stream record's data, its lists checked.

    The checks are whole-list calls: there are millions of deltas, and a loop over them would cost more than
    everything else.
    """
    is_call = row_type == "tool-call-chunks"
    texts, dt = data["args" if is_call else "texts"], data["dt"]
    name = data.get("name")
    if not isinstance(texts, list) or not isinstance(dt, list) or not texts or len(dt) != len(texts) - 1:
        raise BadRecord("run whose times and texts do not match")
    if not is_int(time0) or not is_count(data["index"]) or ("name" in data and not isinstance(name, str)):
        raise BadRecord("run with a bad time, index or name")
    if is_call and not isinstance(data["id"], str):
        raise BadRecord("run with a bad call id")
    time_ms = int(time0)
    try:
        "".join(texts)
        total = sum(dt)
        is_rising = not dt or min(dt) >= 0
        is_plain = is_rising and type(total) is int and max(total, time_ms + total) <= MAX_SAFE
    except TypeError:
        raise BadRecord("run with texts that are no strings or times that are no numbers") from None
    if not is_plain or b"true" in raw or b"false" in raw:
        dt = _checked_steps(time_ms, dt)
        total = sum(dt)
    return Run(
        chunk_type=PACKED_TYPES[row_type],
        time_ms=time_ms,
        last_time_ms=time_ms + total,
        index=int(data["index"]),
        dt=dt,
        texts=texts,
        call_id=data["id"] if is_call else None,
        tool_name=name,
        first_token_ms=time_ms if name else first_token(time_ms, dt, texts),
        is_rising=is_rising,
    )


def _checked_steps(time_ms: int, dt: list[Any]) -> list[int]:
    """dt as integers, where a sum alone can't tell that each is one and each time is safe."""
    if not all(map(is_int, dt)):
        raise BadRecord("run with a time step that is no integer")
    steps = [int(step) for step in dt]
    if any(abs(time) > MAX_SAFE for time in accumulate(steps, initial=time_ms)):
        raise BadRecord("run with a time that is no safe integer")
    return steps


def first_token(time_ms: int, dt: list[int], texts: list[str]) -> int | None:
    """The time of the first text that is not empty, Unix ms; None where all are."""
    if texts[0]:
        return time_ms
    return next((time for time, text in zip(accumulate(dt, initial=time_ms), texts, strict=True) if text), None)


def plain_total(dt: Any, texts: Any, raw: bytes) -> int | None:
    """The sum of dt in ms, where the lists of a run are as the harness writes them; None where they are not.

    So they are with one step less than texts, strings only, and steps that are integers and not negative. raw is
    their line.
    """
    if type(texts) is not list or type(dt) is not list or not texts or len(dt) != len(texts) - 1:
        return None
    try:
        "".join(texts)
        total = sum(dt)
        if type(total) is not int or (dt and min(dt) < 0):
            return None
    except TypeError:
        return None
    # Python adds true as 1, so only where the line has the word can one hide.
    if (b"true" in raw or b"false" in raw) and bool in map(type, dt):
        return None
    return total
