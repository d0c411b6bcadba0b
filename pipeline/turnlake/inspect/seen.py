"""What the model saw: the projection of a session's raw log, else of the events that the lake keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from turnlake.errors import UsageError
from turnlake.format.records import EventLine
from turnlake.format.types import NEWEST_VERSION
from turnlake.format.values import Object
from turnlake.inspect.session import Session, rows
from turnlake.messages.frozen import Message
from turnlake.messages.log import LogProjection, read_log
from turnlake.messages.messages import message_of

# Lines whose events are in memory at once.
LINES_AT_ONCE = 20_000
# All that messages, header and context are derived from.
PROJECTED = (
    *("user/message", "assistant/message", "tool/result", "system/message", "developer/message"),
    *("image/offload", "request/header", "request/context"),
)
_ACCEPTED = """
select e.* exclude ("at") replace (null as stream)
from raw.events as e
inner join staging.sessions as s using (log_id)
left join intermediate.overridden_events as o on s.session_id = o.session_id and e.branch = o.branch and e.seq = o.seq
where log_id = ?
    and list_contains(?, e.type)
    and case when s.verdict = 'refused' then o.seq is null else e.is_accepted end
order by e.seq
"""


class Shown(NamedTuple):
    """A message the model saw, and the event that owns it."""

    seq: int
    message: Message


@dataclass(frozen=True)
class Seen:
    """What the model saw before event `upto` (None: at the end of the log)."""

    projection: LogProjection
    upto: int | None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, as `derive_messages` gives them."""
        return self.projection.messages(self.upto)

    @property
    def shown(self) -> list[Shown]:
        """The messages with their numbers; nodes that give no message are left out."""
        nodes = self.projection.surface(self.upto).nodes
        events = {event["seq"]: event for event in self.projection.events}
        speaking = [seq for seq in nodes if message_of(events[seq]) is not None]
        return [Shown(*pair) for pair in zip(speaking, self.messages, strict=True)]

    @property
    def header(self) -> dict[str, Any] | None:
        """The request header in force."""
        return self.projection.request_header(self.upto)

    @property
    def context(self) -> dict[str, Any] | None:
        """The request context in force."""
        return self.projection.request_context(self.upto)

    @property
    def faults(self) -> list[str]:
        """Where the log could not be followed to the letter."""
        return [f"event {fault.seq} {fault.detail}" for fault in self.projection.surface(self.upto).faults]


def projection_of(session: Session, note: Callable[[str], None]) -> LogProjection:
    """The projection of the raw log where it is as the lake read it, else of the stored events; `note` is told why."""
    path = raw_log(session)
    if isinstance(path, Path):
        return read_log(path).projection
    note(f"{path}: the messages are those of the events that the lake keeps")
    facts = session.facts
    version = min(facts["format_version"] or 0, NEWEST_VERSION)
    return LogProjection(_records(session), version)


def raw_log(session: Session) -> Path | str:
    """The file the session was read from; words where it is not to be had as it was."""
    facts = session.facts
    if facts["machine"] is not None or "!/" in facts["path"]:
        return "the log lies in an archive or on another machine"
    root = Path(facts["source"])
    file = root if root.is_file() else root / facts["path"]
    if not file.is_file():
        return "the log is gone"
    return file if file.stat().st_size == facts["bytes"] else "the log was written to since the last build"


def stored_log(session: Session) -> Iterator[Object]:
    """All readable events of the session's log as the lake keeps them, in order of lines, chunks expanded."""
    from turnlake.rows.replay import stored_events

    log_id, last = session.facts["log_id"], session.facts["line_count"] or 0
    for first in range(1, last + 1, LINES_AT_ONCE):
        lines = (log_id, first, first + LINES_AT_ONCE - 1)
        yield from stored_events(session.facts, *(rows(session.db, query, *lines) for query in _LINES))


_LINES = [
    f"select {columns} from raw.{table} where log_id = ? and line between ? and ? and {is_one} order by line"
    for table, columns, is_one in (
        ("events", '* exclude ("at")', "true"),
        ("chunk_runs", '* exclude ("at", ordinal, dt, texts, chunk)', "form <> 'stream'"),
    )
]


def _records(session: Session) -> Iterator[EventLine]:
    from turnlake.rows.replay import stored_events

    for row in rows(session.db, _ACCEPTED, session.facts["log_id"], list(PROJECTED)):
        [event] = stored_events(session.facts, [row], [])
        yield EventLine(row["line"], 0, b"", False, row["branch"], row["seq"], None, event, False, False)


def checked_seq(session: Session, seq: int) -> int:
    """The number of an event, or the one behind the last. UsageError beyond that."""
    end = session.facts["event_count"]
    if seq > end:
        raise UsageError(f"the log of {session.session_id} ends with event {end - 1}: there is no event {seq}")
    return seq
