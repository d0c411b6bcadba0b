"""A session as the rows of its tables, whole or one turn of it."""

from __future__ import annotations

from typing import Any

from turnlake.errors import UsageError
from turnlake.inspect.overview import settings
from turnlake.inspect.queries import report
from turnlake.inspect.session import Row, Session

# In the order in which they are printed.
TABLES = {
    "turns": "turns",
    "steps": "steps",
    "attempts": "attempts",
    "tool_calls": "calls",
    "messages": "messages",
    "compactions": "compactions",
}


def turn_of(session: Session, number: int) -> Row:
    """The row of an own turn. UsageError where the session has none of that number."""
    known = {turn["turn"]: turn for turn in session.turns}
    if number not in known:
        names = ", ".join(map(str, known)) or "none at all"
        inherited = "; what it inherited is shown in its parent" if session.facts["inherited_event_count"] else ""
        raise UsageError(f"{session.session_id} has no turn {number} of its own: it has {names}{inherited}")
    return known[number]


def request_before(session: Session, number: int) -> int | None:
    """The event before which the last request of a turn was built; of a turn without one the end, None if it has none.

    UsageError where the session has no such turn.
    """
    turn = turn_of(session, number)
    asked = [row for row in report(session, "attempt_requests") if row["turn"] == number and row["kind"] == "model"]
    before: int | None = asked[-1]["before_seq"] if asked else turn["end_seq"]
    return before


def tables_json(session: Session, turn: int | None) -> dict[str, Any]:
    """The session, its settings, the rows of its tables by their names, its findings."""
    kept = {
        name: [row for row in getattr(session, table) if turn is None or row["turn"] == turn]
        for name, table in TABLES.items()
    }
    return {"session": session.facts, "settings": settings(session), **kept, "findings": session.findings}
