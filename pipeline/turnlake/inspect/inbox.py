"""The queue of input of a session, followed through its splices: what a turn took out of it and never used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import orjson

from turnlake.inspect.session import Row, Session, rows

Message = Mapping[str, Any]

NOT_TOLD = "the log does not hold what was taken from the inbox"
_SPLICES = """
select line, coalesce(sql_payload, payload) as payload
from raw.events
where log_id = ? and type = 'agent/inbox/spliced'
order by line
"""


def rejected(session: Session, turn: Row) -> list[Message]:
    """The messages that a blocked turn had claimed behind its last whole step; none where the log tells none."""
    ends = [step["end_seq"] for step in session.in_turn(session.steps, turn["turn"]) if step["end_seq"] is not None]
    first, last = max([*ends, turn["start_seq"] or 0]), turn["end_seq"]
    taken = claimed(session)
    return [message for seq in sorted(taken) if first <= seq <= last for message in taken[seq]]


def claimed(session: Session) -> dict[int, list[Message]]:
    """What each splice took out of the queue without cancelling it, by the number of its event."""
    numbers = {event["line"]: event["seq"] for event in session.events}
    queues: defaultdict[str, list[Any]] = defaultdict(list)
    found = {}
    for row in rows(session.db, _SPLICES, session.facts["log_id"]):
        if row["line"] in numbers:
            taken, is_canceled = _spliced(queues, row["payload"])
            if taken and not is_canceled:
                found[numbers[row["line"]]] = taken
    return found


def inbox_facts(message: Message) -> Row:
    """What `author` asks of a message of the transcript, of one that never got there."""
    source = message.get("source")
    facts: Message = source if isinstance(source, Mapping) else {}
    kind = facts.get("kind") if isinstance(facts.get("kind"), str) else None
    return {"source_kind": kind, "is_human": kind == "user", "role_normalised": message.get("role")}


def _spliced(queues: defaultdict[str, list[Any]], payload: str) -> tuple[list[Message], bool]:
    """Does one splice; what it took out, and whether that was cancelled. A splice without sense changes nothing."""
    try:
        splice = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return [], False
    start, removed = splice.get("start"), splice.get("removedCount") or 0
    inserted, target = splice.get("inserted"), splice.get("target")
    is_sound = all(type(number) is int and number >= 0 for number in (start, removed))
    if not (is_sound and isinstance(inserted, list) and isinstance(target, str)):
        return [], False
    queue = queues[target]
    taken = queue[start : start + removed]
    queue[start : start + removed] = inserted
    return [message for message in taken if isinstance(message, Mapping)], splice.get("outcome") == "canceled"
