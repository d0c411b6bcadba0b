"""The chunks of a step by attempt, and the messages that cite them (v0 and v1: INV-14, INV-25, INV-43, INV-49)."""

from __future__ import annotations

from turnlake.format.records import ChunkLine, EventLine
from turnlake.format.rules.requests import check_usage
from turnlake.format.rules.state import LogState
from turnlake.format.source_seqs import Ranges, pairs


def see_chunks(state: LogState, record: ChunkLine) -> None:
    """Chunks that have a line of their own: in the open step, each run added to the attempt under way."""
    state.may_reopen = False
    turn, step, seq = record.turn, record.step, record.seq
    place = (turn, step)
    if state.is_slot_closed or state.slot_place != place:
        state.slots.append([])
        state.slot_place = place
        state.has_chunks = True
    ranges = state.slots[-1]
    if ranges and ranges[-1] == seq - 1:
        ranges[-1] = seq + record.count - 1
    else:
        ranges += (seq, seq + record.count - 1)
    state.is_slot_closed = record.chunk_type == "finish"
    if turn != state.open_turn or step != state.open_step:
        state.warn("INV-14", f"chunks of turn {turn}, step {step} outside that step")
    elif record.chunk_type == "usage" and record.chunk is not None:
        check_usage(state, record.chunk.get("usage"))


def settle(state: LogState, record: EventLine) -> None:
    """A message with its sources ends the attempt whose chunks it cites."""
    state.is_slot_closed = True
    sources, slots = record.sources, state.slots
    if not sources:
        return
    if not (slots and slots[-1] == sources):
        fits = any(all(_within(first, last, slot) for first, last in pairs(sources)) for slot in slots)
        if not fits or any(a >= b for a, b in zip(sources[1::2], sources[2::2], strict=False)):
            state.error("INV-25", "cites chunks that are not those of one attempt of its step, in order")
    if min(sources) < state.cut <= record.event["seq"]:
        state.warn("INV-43", "the inherited prefix ends inside an attempt")


def _within(first: int, last: int, ranges: Ranges) -> bool:
    return any(start <= first and last <= end for start, end in pairs(ranges))
