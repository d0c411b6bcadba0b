"""Stream chunks: packed rows (spec 4.1), chunks that stand alone, and the streams embedded in events (4.4)."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import orjson

from turnlake.format.values import MAX_SAFE, BadRecord, Object, is_count, is_int, is_text

# Type of a packed row or stream record -> type of its chunks.
PACKED_TYPES = {
    "text-chunks": "text-delta",
    "reasoning-chunks": "reasoning-delta",
    "tool-call-chunks": "tool-call-delta",
}
ROW_TYPES = {chunk_type: row_type for row_type, chunk_type in PACKED_TYPES.items()}

_ROW_KEYS = {"type", "seq0", "time0", "data"}
_DELTA_KEYS = {"turn", "step", "index", "dt", "texts"}
_CALL_KEYS = {"turn", "step", "index", "id", "dt", "args"}
# As the harness writes them.
_DATA_ORDERS = {
    ("turn", "step", "index", "dt", "texts"): "texts",
    ("turn", "step", "index", "dt", "id", "name", "args"): "args",
    ("turn", "step", "index", "dt", "id", "args"): "args",
}
_STREAM_CHUNK = ("type", "time", "chunk")
_STREAM_DELTA = ("type", "time0", "index", "dt", "texts")
_STREAM_CALLS = (
    ("type", "time0", "index", "dt", "id", "name", "args"),
    ("type", "time0", "index", "dt", "id", "args"),
)
_STREAM_CALL_KEYS = {"type", "time0", "index", "id", "dt", "args"}


# The times of a run of deltas, Unix ms: of its last one, and of its first one that holds anything, if any does; and
# whether no time step is negative.
Deltas = tuple[int, int | None, bool]


class StreamSummary(NamedTuple):
    """What an embedded stream says: how many chunks, the times of the last one and of the first and last token (Unix
    ms), its last chunk of type usage and its last of type finish; None where there is none."""

    chunk_count: int
    last_chunk_ms: int | None
    first_token_ms: int | None
    last_token_ms: int | None
    usage: Object | None
    finish: Object | None


def packed_row(row: Object) -> tuple[Object, list[str], Deltas]:
    """The data of a packed row of v0 or v1, its texts and its times. Raises BadRecord for any breach of spec 4.1."""
    data = row.get("data")
    if row.keys() != _ROW_KEYS or type(data) is not dict:
        raise BadRecord("packed row with missing or unexpected members")
    is_call = row["type"] == "tool-call-chunks"
    member = _DATA_ORDERS.get(tuple(data)) or _texts_of_data(data)
    if member is None:
        raise BadRecord("packed row with missing or unexpected members in its data")
    if is_call is not (member == "args"):
        raise BadRecord("packed row of the wrong kind")
    if not (is_count(data["turn"]) and is_count(data["step"]) and is_count(row["seq0"])):
        raise BadRecord("packed row with a bad turn, step or seq0")
    texts = data[member]
    deltas = _deltas(row["time0"], data, texts)
    if is_call and not is_text(data["id"]):
        raise BadRecord("packed row without a call id")
    return data, texts, deltas


def _texts_of_data(data: Object) -> str | None:
    """Which member of a packed row's data holds its texts, in whatever order; None where it is none of a packed row."""
    if data.keys() == _DELTA_KEYS:
        return "texts"
    return "args" if data.keys() - {"name"} == _CALL_KEYS else None


def summarize(stream: object) -> StreamSummary:
    """The summary of an embedded stream (v2 and later). Raises BadRecord for any breach of spec 4.4."""
    if not isinstance(stream, list):
        raise BadRecord("stream is not a list")
    count = 0
    last_chunk: int | None = None
    at: int | None = None
    first_token = last_token = usage = finish = None
    for record in stream:
        texts_member = _texts_member(record)
        if texts_member is None:
            chunk, kind, time = _lone_chunk(record)
            count += 1
            if kind == "usage":
                usage = chunk
            elif kind == "finish":
                finish = chunk
            last_chunk, at = time, time if kind in ROW_TYPES and holds_anything(kind, chunk) else None
        else:
            texts = record[texts_member]
            last_chunk, at, _ = _deltas(record["time0"], record, texts)
            count += len(texts)
        if at is not None:
            first_token = at if first_token is None else first_token
            last_token = last_chunk
    return StreamSummary(count, last_chunk, first_token, last_token, usage, finish)


def _texts_member(record: Any) -> str | None:
    """Which member of a stream record holds its texts; None for a chunk that stands alone."""
    if type(record) is not dict:
        raise BadRecord("stream record that is no object")
    kind, order = record.get("type"), tuple(record)
    if type(kind) is str:
        if kind == "chunk" and (order == _STREAM_CHUNK or set(order) == {*_STREAM_CHUNK}):
            return None
        if kind == "tool-call-chunks":
            if order in _STREAM_CALLS or set(order) - {"name"} == _STREAM_CALL_KEYS:
                return "args"
        elif kind in PACKED_TYPES and (order == _STREAM_DELTA or set(order) == {*_STREAM_DELTA}):
            return "texts"
    raise BadRecord("stream record of an unknown kind or with unexpected members")


def _lone_chunk(record: Object) -> tuple[Object, str, int]:
    """The chunk of a stream record, its type and its time."""
    chunk, time = record["chunk"], record["time"]
    kind = chunk_type_of(chunk)
    if kind is None or not is_int(time):
        raise BadRecord("stream record of an unknown kind or with unexpected members")
    return chunk, kind, int(time)


def chunk_type_of(chunk: object) -> str | None:
    """The type of a chunk; None where it is none."""
    kind = chunk.get("type") if type(chunk) is dict else None
    return kind if type(kind) is str and kind else None


def holds_anything(chunk_type: str, chunk: Object) -> bool:
    """Whether a lone delta holds text, arguments or a tool's name."""
    if chunk_type != "tool-call-delta":
        return bool(chunk.get("text"))
    name = chunk.get("name")
    return bool(chunk.get("argumentsDelta")) or (isinstance(name, str) and name != "")


def delta_of(chunk_type: str, data: Object, text: str) -> Object:
    """One delta of a packed row or stream record, as a chunk that stands alone would be written."""
    if chunk_type != "tool-call-delta":
        return {"type": chunk_type, "index": data["index"], "text": text}
    delta = {"type": chunk_type, "index": data["index"], "id": data["id"], "argumentsDelta": text}
    return delta if "name" not in data else delta | {"name": data["name"]}


def _deltas(time0: Any, data: Object, texts: Any) -> Deltas:
    """The times of a packed row's data or of a stream record, its lists checked.

    The checks are whole-list calls: there are millions of deltas, and a loop over them would cost more than
    everything else.
    """
    dt, name = data["dt"], data.get("name")
    if type(texts) is not list or type(dt) is not list or not texts or len(dt) != len(texts) - 1:
        raise BadRecord("run whose times and texts do not match")
    if not is_int(time0) or not is_count(data["index"]) or (type(name) is not str and "name" in data):
        raise BadRecord("run with a bad time, index or name")
    if "id" in data and type(data["id"]) is not str:
        raise BadRecord("run with a bad call id")
    last = time = int(time0)
    is_rising = True
    try:
        "".join(texts)
        if dt:
            # Digits alone: no negative step, no fraction, no boolean, which Python adds as a number.
            if orjson.dumps(dt).translate(None, b"0123456789,[]"):
                dt = _whole_steps(dt)
                is_rising = min(dt) >= 0
            last += sum(dt)
    except TypeError:
        raise BadRecord("run with texts that are no strings or times that are no numbers") from None
    if abs(last) > MAX_SAFE or (not is_rising and any(abs(at) > MAX_SAFE for at in accumulate(dt, initial=time))):
        raise BadRecord("run with a time that is no safe integer")
    return last, time if texts[0] or name else _first_token(time, dt, texts), is_rising


def _whole_steps(dt: list[Any]) -> list[int]:
    if not all(isinstance(step, (int, float)) for step in dt):
        raise BadRecord("run with texts that are no strings or times that are no numbers")
    if not all(map(is_int, dt)):
        raise BadRecord("run with a time step that is no integer")
    return [int(step) for step in dt]


def _first_token(time: int, dt: list[int], texts: list[str]) -> int | None:
    """The time of the first text that is not empty; None where all are."""
    return next((at for at, text in zip(accumulate(dt, initial=time), texts, strict=True) if text), None)
