"""SESSION as typed -> the one session of a lake that is meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from turnlake.errors import UsageError
from turnlake.inspect.session import Row, rows
from turnlake.inspect.words import instant, log_place, one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# The harness puts this before the id of every session that a person started.
PREFIX = "session-"
NAMED = 10

_SESSIONS = """
select session_id, created_at, project, title from marts.sessions order by created_at desc nulls last, session_id
"""
_NEWEST = "select session_id, last_event_at, title from marts.sessions order by 2 desc limit 10"
_UNREAD = """
select coalesce(header_id, path) as name, source, machine, path, verdict_reason, superseded_why
from raw.logs
where is_read is not true
order by path
"""


def find_session(db: DuckDBPyConnection, text: str) -> str:
    """The id that the text is, or begins, with or without `session-` in front.

    Raises UsageError where none or several fit, naming candidates.
    """
    known = {row["session_id"]: row for row in rows(db, _SESSIONS)}
    if text in known:
        return text
    found = [name for name in known if text and name.startswith((text, PREFIX + text))]
    if len(found) == 1:
        return str(found[0])
    if found:
        raise _several(
            f"{text!r} begins {len(found)} sessions: write more of the one you mean", [known[name] for name in found]
        )
    raise UsageError(_unknown(db, text, list(known)))


def only_session(db: DuckDBPyConnection, path: str) -> str:
    """The session of a lake that was made from one path. Raises UsageError where it holds none or several."""
    known = rows(db, _SESSIONS)
    if len(known) == 1:
        return str(known[0]["session_id"])
    if known:
        raise _several(f"{path} holds {len(known)} sessions: name one log file", known)
    reasons = {str(row["verdict_reason"]) for row in rows(db, _UNREAD)}
    why = ", ".join(sorted(reasons)) or "no log is there"
    raise UsageError(f"{path}: no session to show ({why}); `turnlake doctor {path}` says more")


def _unknown(db: DuckDBPyConnection, text: str, known: list[str]) -> str:
    unread = [row for row in rows(db, _UNREAD) if text and row["name"].startswith((text, PREFIX + text))]
    if unread:
        return f"no event of {unread[0]['name']} was read ({unread[0]['verdict_reason']}): {log_place(unread[0])}"
    near = difflib.get_close_matches(text, known, n=1) or difflib.get_close_matches(PREFIX + text, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f'`turnlake sql "{_NEWEST}"` lists the newest'
    return f"no session {text!r} among the {len(known)} of the lake, and no file of that name: {hint}"


def _several(text: str, found: list[Row]) -> UsageError:
    """The error for several sessions where one is wanted; its notes name them, one a line."""
    error = UsageError(text)
    for row in found[:NAMED]:
        error.add_note(f"{row['session_id']} ({instant(row['created_at'])}{_about(row)})")
    if len(found) > NAMED:
        error.add_note(f"and {len(found) - NAMED} more")
    return error


def _about(row: Row) -> str:
    return "".join(f", {one_line(text, 40)}" for text in (row["project"], row["title"]) if text)
