"""One tool call from the message that asks for it to its result, and all events of one turn."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from turnlake.errors import UsageError
from turnlake.inspect.queries import report
from turnlake.inspect.screen import Line
from turnlake.inspect.session import Row, Session
from turnlake.inspect.tables import turn_of
from turnlake.inspect.timeline import call_words
from turnlake.inspect.words import duration, one_line, told

TURN_HEADERS = ("seq", "step", "type", "outcome", "chunks", "line", "byte", "payload")


def call_of(session: Session, call_id: str, turn: int | None) -> Row:
    """The last tool call of that id. UsageError where the session, or that turn of it, has none."""
    known = [call for call in session.calls if turn is None or call["turn"] == turn]
    found = [call for call in known if call["call_id"] == call_id]
    if found:
        return found[-1]
    where = session.session_id if turn is None else f"turn {turn} of {session.session_id}"
    near = difflib.get_close_matches(call_id, [call["call_id"] for call in known], n=1)
    hint = f"did you mean {near[0]}?" if near else f"`turnlake show {session.session_id}` shows them in brackets"
    raise UsageError(f"{where} has no tool call {call_id!r}: {hint}")


def round_trip(session: Session, call: Row) -> list[Row]:
    """The events of a call, in the order of the log."""
    return report(session, "tool_round_trip", call_id=call["call_id"], turn=call["turn"])


def call_lines(call: Row, events: list[Row], *, full: bool) -> Iterator[Line]:
    """The same for people."""
    place = f"turn {call['turn']}, step {call['step']}"
    yield Line(0, f"tool call {call['tool_name'] or '(unnamed)'} [{call['call_id']}]", place, "heading")
    yield Line(1, "outcome", call_words(call), "plain" if call["outcome"] == "ok" else "bad")
    if call["exec_ms"] is not None:
        yield Line(1, "time", f"{duration(call['exec_ms'])} its own, {duration(call['approval_wait_ms'])} for approval")
    for event in events:
        outcome = f", {one_line(event['outcome'])}" if event["outcome"] else ""
        place = f"line {event['line']}, byte {event['byte_offset']}{_after(event['after_call_ms'])}{outcome}"
        yield Line(1, f"#{event['seq']} {event['type']}", f"{place}\n{told(event['text'], full=full)}")


def _after(ms: int | None) -> str:
    if not ms:
        return ""
    return f", {duration(abs(ms))} {'after' if ms > 0 else 'before'} its start"


def turn_events(session: Session, number: int) -> list[Row]:
    """Every event of a turn, each run of chunks as one. UsageError where the session has no such turn."""
    turn_of(session, number)
    return report(session, "turn_events", turn=number)


def turn_rows(events: list[Row], *, full: bool) -> Iterator[tuple[Any, ...]]:
    """Them under TURN_HEADERS."""
    length = 200 if full else 60
    for event in events:
        facts = [event[name] for name in ("seq", "step", "type", "outcome", "chunk_count", "line", "byte_offset")]
        payload = event["payload"] or ""
        yield (*facts, payload if len(payload) <= length else f"{payload[:length]}…")
