"""Compactions: their brackets, what they say they shadow, and the results they prune (INV-35 to INV-38)."""

from __future__ import annotations

from typing import Any

from turnlake.findings import Severity
from turnlake.format.records import EventLine
from turnlake.format.rules.state import Breach, Compaction, LogState, rule
from turnlake.format.values import Object, name_of


@rule("compaction/start")
def compaction_start(state: LogState, record: EventLine, data: Object) -> None:
    """A compaction begins in the turn it names, while none is open."""
    if state.compaction is not None:
        state.warn("INV-35", f"a compaction begins while {state.compaction.id!r} is open")
    place = (state.open_turn, state.last_turn)
    state.compaction = Compaction(name_of(data.get("compactionId")), data.get("turn"), place)
    state.summary_count = 0
    if "turn" in data and data["turn"] != state.open_turn:
        state.warn("INV-37", f"a compaction of turn {data['turn']} begins, open is {state.open_turn}")


@rule("compaction/summary")
def compaction_summary(state: LogState, record: EventLine, data: Object) -> None:
    """The one summary of the open compaction."""
    name = name_of(data.get("compactionId"))
    state.shadowed[name] = (data.get("shadowedSeqs"), data.get("shadowedRange"))
    if state.compaction is None or state.compaction.id != name:
        state.warn("INV-35", f"a summary of compaction {name!r}, which is not open")
        return
    state.summary_count += 1
    if state.summary_count > 1:
        state.warn("INV-35", f"compaction {name!r} has more than one summary")


@rule("compaction/end")
def compaction_end(state: LogState, record: EventLine, data: Object) -> None:
    """The open compaction ends, in the turn in which it began, with a summary where it succeeds."""
    name, ended, state.compaction = name_of(data.get("compactionId")), state.compaction, None
    if ended is None or ended.id != name:
        state.warn("INV-35", f"compaction {name!r} ends, and is not open")
        return
    if data.get("error") is None and not state.summary_count:
        state.warn("INV-35", f"compaction {name!r} succeeds without a summary")
    if (state.open_turn, state.last_turn) != ended.place:
        state.warn("INV-37", f"a turn begins or ends inside compaction {name!r}")
    elif data.get("turn") != ended.turn:
        state.warn("INV-37", f"compaction {name!r} begins in turn {ended.turn} and ends in {data.get('turn')}")


@rule("session/end-seed")
def abandon(state: LogState, record: EventLine, data: Object) -> None:
    """Whatever a process that died left open stays as it is."""
    state.compaction = None


def see_checkpoint(state: LogState, data: Object, shadowed: list[int]) -> None:
    """A message that replaces these nodes: the checkpoint of a compaction replaces just what its summary names."""
    source = data.get("source")
    compaction = source.get("compactionId") if isinstance(source, dict) else None
    if not isinstance(compaction, str) or name_of(compaction) not in state.shadowed:
        return
    seqs, ends = state.shadowed.pop(name_of(compaction))
    if seqs != shadowed or (ends is not None and ends != {"start": shadowed[0], "end": shadowed[-1]}):
        severity: Severity = "error" if state.version >= 4 else "warning"
        detail = "the checkpoint replaces other events than its summary names"
        state.breaches.append(Breach("INV-36", severity, detail))


@rule("compaction/prune")
def prune(state: LogState, record: EventLine, data: Object) -> None:
    """The next event has to carry it out."""
    state.pruned = (record.event["seq"], data.get("shadowedSeqs"))


def carry_out_prune(state: LogState, event: Object) -> None:
    """The event behind a prune: the tool result that replaces the pruned one."""
    assert state.pruned is not None
    (seq, shadowed), state.pruned = state.pruned, None
    replaced = replaced_range(event["surfaceOp"], state.version) if isinstance(event.get("surfaceOp"), dict) else None
    is_next = event["type"] == "tool/result" and event["seq"] == seq + 1
    if not is_next or replaced is None or shadowed != [replaced[0]] or replaced[0] != replaced[1]:
        state.warn("INV-38", "the event behind a prune is not the result that replaces the pruned one")


def replaced_range(op: Object, version: int) -> tuple[Any, Any]:
    """First and last seq that a replace operation names."""
    return (op.get("start"), op.get("end")) if version < 3 else (op.get("startSeq"), op.get("endSeq"))
