"""JSON as the harness reads it: what parses, and what counts as an integer."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NoReturn, TypeGuard

import orjson

# The largest integer that JavaScript holds exactly.
MAX_SAFE = 2**53 - 1
# As deep as orjson writes. No writer nests more than a dozen levels; what walks values recursively relies on a bound.
MAX_DEPTH = 254
# Names of which many are remembered; the harness writes UUIDs.
MAX_NAME = 100

Object = dict[str, Any]


class BadRecord(Exception):
    """A line that is no record of its format (spec 2.3); the text says why."""


def is_int(value: object) -> TypeGuard[int]:
    """True for a JavaScript safe integer; 1.0 is one, true and -0 are not."""
    if type(value) is int:
        return -MAX_SAFE <= value <= MAX_SAFE
    return type(value) is float and value.is_integer() and abs(value) <= MAX_SAFE and not _is_minus_zero(value)


def _is_minus_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def is_count(value: object) -> TypeGuard[int]:
    """True for a safe integer that is not negative."""
    if type(value) is int:
        return 0 <= value <= MAX_SAFE
    return is_int(value) and value >= 0


def is_text(value: object) -> TypeGuard[str]:
    """True for a string that is not empty."""
    return isinstance(value, str) and value != ""


def parse_leniently(data: bytes) -> Any:
    """What the standard parser makes of a line that orjson refused. Raises BadRecord.

    JavaScript reads lone surrogate escapes and deep nesting; bytes that are no UTF-8 read as U+FFFD.
    """
    try:
        value = json.loads(
            data.decode("utf-8", "replace"), parse_constant=_no_constant, parse_int=_number, parse_float=_finite
        )
    except RecursionError:
        raise BadRecord("nested too deeply") from None
    except ValueError as error:
        raise BadRecord(f"not JSON: {error}") from None
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _number(text: str) -> int | float:
    if text == "-0":
        return -0.0
    return int(text) if len(text) < 300 else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number beyond all bounds")
    return value


def check_depth(value: Any) -> None:
    """Raises BadRecord where value nests deeper than MAX_DEPTH."""
    if _is_deep(value):
        raise BadRecord("nested too deeply")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [item for item in level if isinstance(item, (dict, list))]
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
    return any(isinstance(item, (dict, list)) for item in level)


def int_or_none(value: object) -> int | None:
    """The value as an int where it is a JavaScript safe integer, else None."""
    if type(value) is int and -MAX_SAFE <= value <= MAX_SAFE:
        return value
    return int(value) if is_int(value) else None


def canonical(value: Any) -> str:
    """Canonical JSON: keys sorted, no blanks, characters as they are."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(value: Any) -> bytes:
    """16 bytes that two JSON values have in common where they are equal."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        text = json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).digest()


def name_of(value: object) -> str:
    """A log's id or number as a key to find it again by: of bounded length, whatever the log has there."""
    text = str(int(value) if is_int(value) else value)
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}#{digest_of(text).hex()}"


def scrubbed(value: Any) -> Any:
    """The value with U+FFFD for every lone surrogate in its strings and keys; tuples as lists."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {scrubbed(key): scrubbed(item) for key, item in value.items()}
    return [scrubbed(item) for item in value] if isinstance(value, (list, tuple)) else value
