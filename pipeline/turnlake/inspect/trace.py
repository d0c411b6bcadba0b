"""One event both ways: what it was made from, down to chunks and lines of the file, and all that was made from it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from turnlake.errors import UsageError
from turnlake.inspect.queries import report
from turnlake.inspect.screen import Line, Tone
from turnlake.inspect.session import Row, Session, rows
from turnlake.inspect.words import content_text, instant, log_place, told

_EVENT = """
select
    type,
    seq,
    branch,
    "at" as event_at,
    turn,
    step,
    line,
    byte_offset,
    call_id,
    related_id,
    surface_op,
    is_inherited,
    is_accepted,
    payload as text
from raw.events
where log_id = ? and seq = ?
order by branch desc
limit 1
"""
# Chunks that are events of their own; those in the stream of a message have its number.
_CHUNK = """
select
    concat('assistant/chunk ', chunk_type) as type,
    seq,
    branch,
    "at" as event_at,
    turn,
    step,
    line,
    byte_offset,
    call_id,
    null as related_id,
    null as surface_op,
    is_inherited,
    is_accepted,
    coalesce(text, chunk) as text
from raw.chunks
where log_id = ? and seq = ? and form <> 'stream'
order by branch desc
limit 1
"""


@dataclass(frozen=True)
class Trace:
    """An event, its sources and dependents with their depth, and the events tied to it by an id."""

    event: Row
    sources: list[Row]
    dependents: list[Row]
    related: list[Row]

    def as_json(self, session: Session) -> dict[str, Any]:
        """All of it, and where the log is."""
        facts = session.facts
        log = {"source": facts["source"], "path": facts["path"], "format_version": facts["format_version"]}
        return {"session_id": session.session_id, "log": log, **vars(self)}


def trace_event(session: Session, seq: int) -> Trace:
    """The trace of an event. UsageError where the log has none of that number."""
    log_id = session.facts["log_id"]
    found = rows(session.db, _EVENT, log_id, seq) or rows(session.db, _CHUNK, log_id, seq)
    if not found:
        last = session.facts["event_count"] - 1
        raise UsageError(f"the log of {session.session_id} has no event {seq}: its events are 0 to {last}")
    event = found[0]
    # The first row of the provenance is the message itself.
    sources = report(session, "message_provenance", seq=seq) if event["surface_op"] is not None else []
    return Trace(
        event,
        [row for row in sources if row["depth"] > 0],
        report(session, "event_dependents", seq=seq),
        _related(session, event),
    )


def _related(session: Session, event: Row) -> list[Row]:
    """Other events with the same id: of an approval, compaction, retry or command, or of the tool call in its turn."""
    return [
        {name: other[name] for name in ("seq", "type", "line", "turn", "step", "outcome")}
        for other in session.events
        if other["seq"] != event["seq"] and (_shares(other, event, "related_id") or _shares_call(other, event))
    ]


def _shares(one: Row, other: Row, name: str) -> bool:
    return one[name] is not None and one[name] == other[name]


def _shares_call(one: Row, other: Row) -> bool:
    if not other["call_id"] or one["turn"] not in (other["turn"], None):
        return False
    return one["call_id"] == other["call_id"] or other["call_id"] in (one["tool_call_ids"] or ())


def trace_lines(session: Session, trace: Trace, *, full: bool) -> Iterator[Line]:
    """The trace for people; runs of chunks in one line unless all is asked for."""
    event = trace.event
    yield Line(0, f"#{event['seq']} {event['type']}", _place(event), "heading")
    yield Line(1, "log    ", log_place(session.facts), "faint")
    yield Line(1, "at     ", f"{instant(event['event_at'])}, {_bracket(event)}", "faint")
    if not event["is_accepted"]:
        yield Line(1, "not accepted", "the harness would not read this event", "bad")
    yield Line(1, "payload", told(event["text"], full=full))
    texts = {} if full else {message["seq"]: message["content"] for message in session.messages}
    yield Line(0, "made from", "" if trace.sources else "nothing that the log names", "heading")
    sources = list(tree(trace.sources, event["seq"], "source_of_seq"))
    yield from _chain(sources if full else _joined(sources), texts, full=full)
    yield Line(0, "made from it", "" if trace.dependents else "nothing", "heading")
    yield from _chain(tree(trace.dependents, event["seq"], "source_seq"), texts, full=full)
    if trace.related:
        yield Line(0, "goes with", "", "heading")
        for row in trace.related:
            yield Line(1, f"#{row['seq']} {row['type']}", f"line {row['line']}{_outcome(row)}")


def tree(found: list[Row], root: int, parent: str) -> Iterator[Row]:
    """The rows as a tree: each behind the event it hangs on. What hangs on several is shown where it is met first."""
    children: defaultdict[int, list[Row]] = defaultdict(list)
    for row in found:
        children[row[parent]].append(row)
    waiting = [(row, 1) for row in reversed(children.pop(root, []))]
    while waiting:
        row, depth = waiting.pop()
        yield row | {"depth": depth}
        if row.get("position") is None:
            waiting += [(child, depth + 1) for child in reversed(children.pop(row["seq"], []))]


def _chain(found: Iterable[Row], texts: dict[int, str | None], *, full: bool) -> Iterator[Line]:
    for row in found:
        is_chunk = "chunk" in row["type"]
        name = row.get("label") or f"#{row['seq']}{_position(row)}"
        replaces = " replaces it;" if row.get("is_replacement") else ""
        content = None if is_chunk else texts.get(row["seq"])
        text = row["text"] if content is None else content_text(json.loads(content)) or "(empty)"
        tone: Tone = "faint" if is_chunk else "plain"
        yield Line(row["depth"], f"{name} {row['type']}", f"{_place(row)};{replaces} {told(text, full=full)}", tone)


def _joined(sources: list[Row]) -> Iterator[Row]:
    """The sources, neighbouring chunks of one type as one row: their texts joined, their numbers as a range.

    Further down than the event's own stream all chunks of a message are one row.
    """

    def alike(row: Row) -> tuple[Any, ...]:
        is_far = row["depth"] > 1 and row["type"].startswith("chunk")
        return row["depth"], row["source_of_seq"], "chunks" if is_far else row["type"]

    for (_, _, kind), run in groupby(sources, key=alike):
        members = list(run)
        if not kind.startswith("chunk") or len(members) == 1:
            yield from members
            continue
        first, last = members[0], members[-1]
        label = f"#{first['seq']}{_position(first)}–{_position(last) or last['seq']}"
        text = "".join(member["text"] or "" for member in members if member["type"].endswith("-delta"))
        yield first | {"label": label, "type": f"{len(members)} × {kind}", "text": text}


def _position(row: Row) -> str:
    """Where in the stream of a message a chunk stands."""
    return "" if row.get("position") is None else f"[{row['position']}]"


def _place(row: Row) -> str:
    return f"line {row['line']}, byte {row['byte_offset']}"


def _bracket(event: Row) -> str:
    if event["turn"] is None:
        return "names no turn"
    return f"turn {event['turn']}" + (f", step {event['step']}" if event["step"] is not None else "")


def _outcome(row: Row) -> str:
    return f", {told(row['outcome'], full=False)}" if row["outcome"] is not None else ""
