"""Turns and steps: one is open at a time, they count 1, 2, 3, and events name the open ones (INV-10 to INV-15)."""

from __future__ import annotations

from typing import Any

from turnlake.format.records import EventLine
from turnlake.format.rules.state import LogState, rule
from turnlake.format.types import TYPES
from turnlake.format.values import Object, is_count


@rule(*(name for name, one in TYPES.items() if one.is_in_step))
def in_step(state: LogState, record: EventLine, data: Object) -> None:
    """The event names the open turn and step; a tool result that replaces another only has to stand in a turn."""
    event = record.event
    if event["type"] == "tool/result" and event.get("surfaceOp") != "append":
        if state.open_turn is None:
            state.warn("INV-15", "a tool result is replaced outside a turn")
    elif not _names_open_step(state, data):
        where = f"turn {data.get('turn')}, step {data.get('step')}"
        state.error("INV-14", f"{event['type']} names {where}, open is {state.open_turn}, {state.open_step}")


def _names_open_step(state: LogState, data: Object) -> bool:
    """Whether data names the open turn and step; true and 1 are not the same."""
    turn, step = data.get("turn"), data.get("step")
    return is_count(turn) and is_count(step) and turn == state.open_turn and step == state.open_step


@rule("turn/start")
def turn_start(state: LogState, record: EventLine, data: Object) -> None:
    """No turn is open, and this one's number follows."""
    turn = data.get("turn")
    if state.open_turn is not None and not (state.version < 4 and state.may_reopen and state.open_step is None):
        state.error("INV-10", f"turn {turn} starts while turn {state.open_turn} is open")
    elif state.open_turn is not None:
        state.advise("INV-10", f"turn {state.open_turn} has no end; turn {turn} was claimed after it")
    if not is_count(turn) or turn != state.last_turn + 1:
        state.error("INV-11", f"turn {turn} follows turn {state.last_turn}")
    state.open_turn = state.last_turn = int(turn) if is_count(turn) else state.last_turn + 1
    state.open_step, state.last_step = None, 0
    state.leave_step()


@rule("turn/end")
def turn_end(state: LogState, record: EventLine, data: Object) -> None:
    """The turn that is open ends, and no step is open in it."""
    if state.open_step is not None:
        state.error("INV-13", f"turn {data.get('turn')} ends while step {state.open_step} is open")
    if state.open_turn is None or not is_count(data.get("turn")) or data["turn"] != state.open_turn:
        state.error("INV-10", f"turn {data.get('turn')} ends, open is {state.open_turn}")
    state.open_turn = state.open_step = None
    state.leave_step()


@rule("step/start")
def step_start(state: LogState, record: EventLine, data: Object) -> None:
    """No step is open in the open turn, and this one's number follows."""
    turn, step = data.get("turn"), data.get("step")
    if turn != state.open_turn or state.open_turn is None or state.open_step is not None:
        here = f"{state.open_turn}, {state.open_step}"
        state.error("INV-12", f"step {step} of turn {turn} starts, open is {here}")
    if not is_count(step) or step != state.last_step + 1:
        state.error("INV-12", f"step {step} follows step {state.last_step}")
    state.open_step = state.last_step = int(step) if is_count(step) else state.last_step + 1
    state.leave_step()


@rule("step/end")
def step_end(state: LogState, record: EventLine, data: Object) -> None:
    """The step that is open ends, and its calls have results."""
    if not _names_open_step(state, data):
        here = f"{state.open_turn}, {state.open_step}"
        state.error("INV-12", f"step {data.get('step')} of turn {data.get('turn')} ends, open is {here}")
    for call_id in state.started:
        state.warn("INV-21", f"call {call_id!r} has no result when its step ends")
    state.open_step = None
    state.leave_step()


def claims_next_turn(data: Any) -> bool:
    """Whether an inbox splice gives messages to the next turn: up to v3 that may open while the one before is open."""
    return isinstance(data, dict) and data.get("target") == "next-turn" and bool(data.get("inserted"))


def see_end(state: LogState) -> None:
    """The log ends: no turn should be open."""
    if state.open_turn is not None:
        state.advise("INV-46", f"turn {state.open_turn} is open: a live writer, or one that died")
