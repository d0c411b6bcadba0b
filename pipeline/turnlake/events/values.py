"""JSON as the harness reads it: what parses, and what counts as an integer."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, TypeGuard

# The largest integer that JavaScript holds exactly.
MAX_SAFE = 2**53 - 1

Object = dict[str, Any]


class BadRecord(Exception):
    """A line that is no record of its format (spec 2.3); the text says why."""


def is_int(value: object) -> TypeGuard[int]:
    """True for a JavaScript safe integer; 1.0 is one, true is not."""
    if type(value) is int:
        return -MAX_SAFE <= value <= MAX_SAFE
    return type(value) is float and value.is_integer() and abs(value) <= MAX_SAFE


def is_count(value: object) -> TypeGuard[int]:
    """True for a safe integer that is not negative."""
    return is_int(value) and value >= 0


def is_text(value: object) -> TypeGuard[str]:
    """True for a string that is not empty."""
    return isinstance(value, str) and value != ""


def parse_leniently(data: bytes) -> Any:
    """What the standard parser makes of a line that orjson refused. Raises BadRecord.

    JavaScript reads lone surrogate escapes and deep nesting; bytes that are no UTF-8 read as U+FFFD.
    """
    try:
        value = json.loads(data.decode("utf-8", "replace"), parse_constant=_no_constant, parse_int=_number)
    except RecursionError:
        raise BadRecord("nested too deeply") from None
    except ValueError as error:
        raise BadRecord(f"not JSON: {error}") from None
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _number(text: str) -> int | float:
    """An integer; a float where it has more digits than Python converts or JavaScript can hold."""
    if len(text) < 300:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else math.copysign(math.inf, value)


def canonical(value: Any) -> str:
    """Canonical JSON: keys sorted, no blanks, characters as they are."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
