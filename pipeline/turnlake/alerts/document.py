"""What fired, for programs and for chat: JSON rows, and a text of which no log steers how it is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any

from turnlake import __version__
from turnlake.alerts.run import Fired, Outcome
from turnlake.console import as_text, plain

# Bounds of what a webhook gets, in things, characters and bytes.
TEXT_LINES = 20
TEXT_LENGTH = 300
VALUE_LENGTH = 500
ROWS_BYTES = 100_000

# What chat services read as markup; and an @ that names nobody, for some of them call people by plain text.
_CHAT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"})
_PLURALS = {"error": "errors", "warning": "warnings", "advisory": "advisories", "broken alert": "broken alerts"}


def as_json(outcome: Outcome, tz: tzinfo) -> dict[str, Any]:
    """The outcome as `alerts --json` prints it; text at full length."""
    return {
        "asked": list(outcome.asked),
        "counts": outcome.counts(),
        "fired": [_row(thing, tz, None) for thing in outcome.fired],
        "broken": dict(outcome.broken),
    }


def webhook_document(outcome: Outcome, tz: tzinfo) -> bytes:
    """The JSON document that a webhook gets: `text` for chat, the same as rows, bounded in size; ASCII only."""
    rows = list(_rows_that_fit(outcome, tz))
    document = {
        "text": chat_text(outcome, tz),
        # To Slack: show the text as it is, and do not fetch what it names.
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "turnlake": __version__,
        "counts": outcome.counts(),
        "fired": rows,
        "left_out_count": len(outcome.fired) - len(rows),
        "broken": {name: _cut(reason, VALUE_LENGTH) for name, reason in list(outcome.broken.items())[:TEXT_LINES]},
    }
    return json.dumps(document, default=as_text).encode("ascii")


def chat_text(outcome: Outcome, tz: tzinfo) -> str:
    """What fired, a line each, with what chat services read as markup escaped."""
    lines = [f"turnlake: {headline(outcome)}"]
    lines += [line_of(thing, tz) for thing in outcome.fired[:TEXT_LINES]]
    if len(outcome.fired) > TEXT_LINES:
        lines.append(f"and {len(outcome.fired) - TEXT_LINES:,} more")
    lines += [f"broken alert {reason}" for reason in list(outcome.broken.values())[:TEXT_LINES]]
    return "\n".join(_cut(plain(line), TEXT_LENGTH).translate(_CHAT) for line in lines)


def headline(outcome: Outcome) -> str:
    """How many things fired, by severity, in words."""
    counts = {**outcome.counts(), "broken alert": len(outcome.broken)}
    return ", ".join(f"{n:,} {name if n == 1 else _PLURALS[name]}" for name, n in counts.items() if n) or "nothing"


def in_short(outcome: Outcome, *, are_new: bool) -> str:
    """How many alerts were asked, what they found, and how many are broken: of those nothing is known."""
    asked, broken = (
        f"{len(names):,} alert{'' if len(names) == 1 else 's'}" for names in (outcome.asked, outcome.broken)
    )
    if outcome.fired:
        found = headline(replace(outcome, broken={})) + (", all new" if are_new else "")
    else:
        found = "none fired" if outcome.broken else "nothing to look at"
    parts = [f"{asked} asked: {found}"] if outcome.asked else []
    return "; ".join([*parts, *([f"{broken} broken"] if outcome.broken else [])])


def line_of(thing: Fired, tz: tzinfo) -> str:
    """A thing in one line."""
    place = " ".join([thing.session_id or "(no session)", *([f"turn {thing.turn}"] if thing.turn is not None else [])])
    return f"{thing.severity} {thing.alert} {shown(thing.at, tz) or '(no time)'} {place}: {thing.message}"


def shown(at: datetime | None, tz: tzinfo) -> str | None:
    """An instant to the second, in that zone."""
    return None if at is None else _in_zone(at, tz).isoformat(sep=" ", timespec="seconds")


def _rows_that_fit(outcome: Outcome, tz: tzinfo) -> Iterator[dict[str, Any]]:
    size = 0
    for thing in outcome.fired:
        row = _row(thing, tz, VALUE_LENGTH)
        size += len(json.dumps(row, default=as_text))
        if size > ROWS_BYTES:
            return
        yield row


def _row(thing: Fired, tz: tzinfo, length: int | None) -> dict[str, Any]:
    return {
        "alert": thing.alert,
        "severity": thing.severity,
        "at": None if thing.at is None else _in_zone(thing.at, tz).isoformat(),
        "session_id": _value(thing.session_id, length),
        "turn": thing.turn,
        "message": _value(thing.message, length),
        "details": {name: _value(value, length) for name, value in thing.details.items()},
    }


def _value(value: Any, length: int | None) -> Any:
    """A cell as JSON has it, or as text; text cut where a length is given."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if length is not None:
        return _cut(as_text(value), length)
    if isinstance(value, list):
        return [_value(item, None) for item in value]
    if isinstance(value, dict):
        return {as_text(name): _value(item, None) for name, item in value.items()}
    return as_text(value)


def _in_zone(at: datetime, tz: tzinfo) -> datetime:
    try:
        return at.astimezone(tz)
    except OverflowError:  # the first or last day that a date can hold
        return at


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
