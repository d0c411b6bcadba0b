"""What the events of one log have to keep among themselves (spec sections 5, 10 and 11), by topic.

`judge_event` gets every accepted event in order; each rule leaves what the event breaks in the state.
"""

from __future__ import annotations

from turnlake.format.records import EventLine
from turnlake.format.rules import brackets, calls, chunks, citations, compactions, requests, surface
from turnlake.format.rules.chunks import see_chunks as chunks_rule
from turnlake.format.rules.state import RULES, Breach, LogState

__all__ = ["Breach", "LogState", "chunks_rule", "judge_end", "judge_event"]

# Importing a module registers its rules; brackets come first.
TOPICS = (brackets, requests, calls, compactions, citations, chunks, surface)
_NONE: tuple[()] = ()
_RULES = {kind: tuple(rules) for kind, rules in RULES.items()}


def judge_event(state: LogState, record: EventLine) -> None:
    """Brings the state on by one event; what that breaks is appended to `state.breaches`."""
    event = record.event
    kind, data = event["type"], event.get("data")
    if state.pruned is not None:
        compactions.carry_out_prune(state, event)
    if isinstance(data, dict):
        for rule in _RULES.get(kind, _NONE):
            rule(state, record, data)
        if kind in state.message_types:
            surface.see_message(state, record, data)
    state.may_reopen = kind == "agent/inbox/spliced" and brackets.claims_next_turn(data)


def judge_end(state: LogState) -> None:
    """What the end of the log breaks."""
    brackets.see_end(state)
    requests.see_end(state)
