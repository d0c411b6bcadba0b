"""The payload text of an event: its `data` as written, and beside it the text of a stream embedded in it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import orjson

from turnlake.format.records import ORDERS, ChunkLine, EventLine
from turnlake.format.values import Object, scrubbed

_DATA = b'"data":'
_STREAM = b',"stream":['
# Longer lines that are not plain have a payload written anew: taking one apart takes many times its memory.
EXACT_BYTES = 4 << 20
_BLANKS = re.compile(r"[ \t\n\r]*")


class Payload(NamedTuple):
    """The text to store; `stream` that of the stream it was cut out of; `sql_text` where SQL would not read the payload
    as Python did."""

    text: bytes
    stream: bytes | None = None
    sql_text: bytes | None = None


def payload_of(record: EventLine) -> Payload:
    """The payload of an event.

    Of a line that is written as the harness writes it a slice; of any other its data as written, where that can be cut
    out of the line.
    """
    data: Any = record.event.get("data")
    if record.is_plain:
        raw, follower = record.raw, ORDERS[tuple(record.event)].follower
        start = raw.index(_DATA) + len(_DATA)
        # Nothing behind data can hold the name of the member that follows it.
        end = -1 if follower is None else raw.rindex(follower)
        text = raw[start:end]
        return Payload(text) if record.stream is None else Payload(*_without_stream(text, data))
    # Half a surrogate pair stands in the payload as an escape.
    whole = scrubbed(data) if record.is_odd else data
    printed = json_text(whole)
    text = _as_written(record, data) or (printed if whole is data else json_text(data))
    stream = None if record.stream is None else json_text(whole["stream"])
    if stream is not None and text == printed:
        return Payload(json_text(whole | {"stream": []}), stream)
    return Payload(text, stream, printed if whole != data or _names_twice(text) else None)


def chunk_payload(record: ChunkLine) -> bytes:
    """The data of a line of chunks as JSON text that SQL can read."""
    if record.is_plain:
        return record.raw[record.raw.index(_DATA) + len(_DATA) : -1]
    data = record.event["data"]
    return json_text(scrubbed(data) if record.is_odd else data)


def line_text(record: EventLine | ChunkLine) -> bytes:
    """The line as written; bytes that are no UTF-8 as U+FFFD."""
    return record.raw.decode("utf-8", "replace").encode() if record.is_odd else record.raw


def json_text(value: Any) -> bytes:
    """JSON text of a value, as the harness would write it; lone surrogates as escapes."""
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":")).encode()


def _without_stream(text: bytes, data: Object) -> tuple[bytes, bytes]:
    """The payload with `[]` for its stream, and the stream's text; text is just what orjson makes of data."""
    at = text.find(_STREAM)
    if at >= 0 and text.find(_STREAM, at + 1) < 0 and len(data) > 1 and next(reversed(data)) == "stream":
        start = at + len(_STREAM) - 1
        return text[:start] + b"[]}", text[start:-1]
    # Something else in it is called so too, or stands behind it.
    return orjson.dumps(data | {"stream": []}), orjson.dumps(data["stream"])


def _as_written(record: EventLine, data: Any) -> bytes | None:
    """The text of the member `data` in a line of any form; None where the event is not what the line says."""
    if record.normalised_from is not None or "data" not in record.event or len(record.raw) > EXACT_BYTES:
        return None
    text = record.raw.decode("utf-8", "replace")
    decode = json.JSONDecoder().raw_decode
    try:
        at, found = text.index("{") + 1, None
        while True:
            at = _skip(text, at)
            if text[at] == "}":
                break
            name, at = decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
            start = at
            _, at = decode(text, at)
            if name == "data":
                found = text[start:at]
            at = _skip(text, at)
            at += text[at] == ","
        return None if found is None else found.encode()
    except (ValueError, IndexError, RecursionError):
        # Only the lenient reading knew what to make of it.
        return None


def _names_twice(text: bytes) -> bool:
    """Whether an object in JSON text names a member twice: SQL takes the first of them, and Python the last."""
    if len(text) > EXACT_BYTES:
        return False
    found = False

    def see(members: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len(members) > len({name for name, _ in members})

    json.loads(text, object_pairs_hook=see)
    return found


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()
