"""The payload text of an event: its `data` as written, cut out of the line (never written anew if avoidable)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson

from turnlake.format.record import Record
from turnlake.format.values import BadRecord, Object, parse_leniently
from turnlake.messages.surface import NODE_SINCE

_KEY = b'"data":'
_STREAM = b'"stream":'
_ESCAPED_ASCII = b"\\u00"
_ESCAPED_QUOTE = b"\\u0022"


class Payload(NamedTuple):
    """The text to store; `sql_text` where SQL would not read that alike; `is_exact` False where it was written anew."""

    text: bytes
    sql_text: bytes | None
    is_exact: bool


def payload_of(record: Record, value: Object) -> Payload:
    """The payload of a record that is no run; value is its event without lone surrogates."""
    cut, is_as_printed = (None, True) if record.keep_line else _cut_out(record.raw, record.event)
    is_exact = cut is not None
    text = _dump(record.event.get("data")) if cut is None else cut
    if record.is_odd:
        # The columns of chunk_runs can't hold half a surrogate pair, so the stream stays where it is.
        return Payload(valid(text), _dump(value.get("data")), is_exact)
    if record.stream:
        text = _without_stream(text, record.event["data"])
    return Payload(text, None if is_as_printed else _for_sql(text, record), is_exact)


def _for_sql(text: bytes, record: Record) -> bytes | None:
    """The payload of a message anew where an object in it may name a member twice: SQL would take the first of them.

    Each member that parsing drops takes its quotes along; only an escaped one could hide that.
    """
    if record.event["type"] not in NODE_SINCE:
        return None
    data = record.event["data"]
    printed = _dump(data | {"stream": []} if record.stream else data)
    has_all = printed.count(b'"') == text.count(b'"') and _ESCAPED_QUOTE not in text
    return None if has_all else printed


def _cut_out(raw: bytes, event: Object) -> tuple[bytes | None, bool]:
    """The bytes of the member `data`, None where they can't be told; and whether they are those of its parsed value."""
    if "data" not in event:
        return None, True
    text = _as_the_harness_writes(raw, event)
    if text is not None:
        return text, True
    text = _behind_its_name(raw, event)
    return (text, False) if text is not None and _parsed(text) == event["data"] else (None, True)


def _as_the_harness_writes(raw: bytes, event: Object) -> bytes | None:
    """The data as JSON text where just that stands in the usual place of the line; None where it does not."""
    start = f'{{"type":"{event["type"]}","seq":{event["seq"]},"time":{event["time"]},"data":'.encode("utf-8", "replace")
    text = _dump(event["data"])
    return text if raw.startswith(start) and raw.startswith(text, len(start)) else None


def _behind_its_name(raw: bytes, event: Object) -> bytes | None:
    """What stands behind the first `"data":` up to the next member; a guess, for lines written in another order."""
    start = raw.find(_KEY)
    names = list(event)
    after = names[names.index("data") + 1 :]
    end = raw.rfind(b',"%s":' % after[0].encode()) if after else len(raw.rstrip()) - 1
    return raw[start + len(_KEY) : end] if 0 <= start < end else None


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return parse_leniently(text)
        except BadRecord:
            return text


def _without_stream(text: bytes, data: Object) -> bytes:
    """The payload with `[]` for its stream, where the stream's bytes are found once and surely."""
    needle = _STREAM + _dump(data["stream"])
    at = text.find(needle)
    if at < 0:
        return text
    shorter = text[:at] + _STREAM + b"[]" + text[at + len(needle) :]
    is_sure = text.count(_STREAM[:-1]) == 1 and _ESCAPED_ASCII not in text
    return shorter if is_sure or _parsed(shorter) == data | {"stream": []} else text


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":")).encode()


def json_text(value: Any) -> bytes:
    """JSON text of a value, as the harness would write it."""
    return _dump(value)


def valid(text: bytes) -> bytes:
    """The text as valid UTF-8, with U+FFFD where it is not."""
    return text.decode("utf-8", "replace").encode()
