"""The payload text of an event: its `data` as written, cut out of the line (never written anew if avoidable)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson

from turnlake.events.scan import Record
from turnlake.events.values import Object

_KEY = b'"data":'
_STREAM = b'"stream":'


class Payload(NamedTuple):
    """The text to store; `sql_text` where SQL can't parse that; `is_exact` False where it was written anew."""

    text: bytes
    sql_text: bytes | None
    is_exact: bool


def payload_of(record: Record, value: Object) -> Payload:
    """The payload of a record that is no run; value is its event without lone surrogates."""
    cut = None if record.keep_line else _cut_out(record.raw, record.event)
    is_exact = cut is not None
    text = _dump(record.event["data"]) if cut is None else cut
    if record.stream:
        text = _without_stream(text, record.event["data"]["stream"])
    if not record.is_odd:
        return Payload(text, None, is_exact)
    return Payload(valid(text), _dump(value["data"]), is_exact)


def _cut_out(raw: bytes, event: Object) -> bytes | None:
    """The bytes of the member `data`; None where they can't be told with certainty."""
    start = raw.find(_KEY)
    keys = list(event)
    after = keys.index("data") + 1
    if start < 0:
        return None
    if after == len(keys):
        end = len(raw.rstrip()) - 1
    else:
        end = raw.rfind(b',"%s":' % keys[after].encode())
    text = raw[start + len(_KEY) : end]
    if raw.count(_KEY) > 1 and _parsed(text) != event["data"]:
        return None
    return text if text[:1] == b"{" and text[-1:] == b"}" or text == b"null" else None


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _without_stream(text: bytes, stream: Any) -> bytes:
    """The payload with `[]` for its stream, where the stream's bytes are found once and surely."""
    needle = _STREAM + _dump(stream)
    at = text.find(needle)
    if at < 0 or text.find(needle, at + 1) >= 0:
        return text
    return text[:at] + _STREAM + b"[]" + text[at + len(needle) :]


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


def scrubbed(value: Any) -> Any:
    """The value with U+FFFD for every lone surrogate in its strings and keys."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {scrubbed(key): scrubbed(item) for key, item in value.items()}
    return [scrubbed(item) for item in value] if isinstance(value, list) else value
