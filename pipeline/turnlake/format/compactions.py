"""Compactions: their brackets, what they say they shadow, and the results they prune (INV-35 to INV-38)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from turnlake.findings import Severity
from turnlake.format.breach import Breach, warning
from turnlake.format.values import Object, name_of

# The open turn, None between turns, and the last one begun: together they change at each boundary of a turn.
Place = tuple[int | None, int]


@dataclass
class _Open:
    id: str
    place: Place
    turn: Any
    summary_count: int = 0


class Compactions:
    """The compactions of one log in order."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._open: _Open | None = None
        # What each summary says it shadows, until its checkpoint comes.
        self._shadowed: dict[str, tuple[Any, Any]] = {}
        # The prune that the next event has to carry out.
        self.pruned: tuple[int, Any] | None = None

    def start(self, data: Object, place: Place) -> Iterator[Breach]:
        """A compaction/start."""
        if self._open is not None:
            yield warning("INV-35", f"a compaction begins while {self._open.id!r} is open")
        self._open = _Open(name_of(data.get("compactionId")), place, data.get("turn"))
        if "turn" in data and data["turn"] != place[0]:
            yield warning("INV-37", f"a compaction of turn {data['turn']} begins, open is {place[0]}")

    def summary(self, data: Object) -> Iterator[Breach]:
        """A compaction/summary."""
        name = name_of(data.get("compactionId"))
        self._shadowed[name] = (data.get("shadowedSeqs"), data.get("shadowedRange"))
        if self._open is None or self._open.id != name:
            yield warning("INV-35", f"a summary of compaction {name!r}, which is not open")
            return
        self._open.summary_count += 1
        if self._open.summary_count > 1:
            yield warning("INV-35", f"compaction {name!r} has more than one summary")

    def end(self, data: Object, place: Place) -> Iterator[Breach]:
        """A compaction/end."""
        name, ended, self._open = name_of(data.get("compactionId")), self._open, None
        if ended is None or ended.id != name:
            yield warning("INV-35", f"compaction {name!r} ends, and is not open")
            return
        if data.get("error") is None and not ended.summary_count:
            yield warning("INV-35", f"compaction {name!r} succeeds without a summary")
        if place != ended.place:
            yield warning("INV-37", f"a turn begins or ends inside compaction {name!r}")
        elif data.get("turn") != ended.turn:
            yield warning("INV-37", f"compaction {name!r} begins in turn {ended.turn} and ends in {data.get('turn')}")

    def abandon(self) -> None:
        """A session/end-seed: whatever a process that died left open stays as it is."""
        self._open = None

    def checkpoint(self, data: Object, shadowed: list[int]) -> Iterator[Breach]:
        """A message that replaces these nodes, perhaps the checkpoint of a compaction: just what its summary says."""
        source = data.get("source")
        compaction = source.get("compactionId") if isinstance(source, dict) else None
        if not isinstance(compaction, str) or name_of(compaction) not in self._shadowed:
            return
        seqs, ends = self._shadowed.pop(name_of(compaction))
        if seqs != shadowed or (ends is not None and ends != {"start": shadowed[0], "end": shadowed[-1]}):
            severity: Severity = "error" if self._version >= 4 else "warning"
            yield Breach("INV-36", severity, "the checkpoint replaces other events than its summary names")

    def prune(self, seq: int, data: Object) -> None:
        """A compaction/prune with that seq."""
        self.pruned = (seq, data.get("shadowedSeqs"))

    def carry_out(self, event: Object, replaced: tuple[Any, Any] | None) -> Iterator[Breach]:
        """The event behind a prune; replaced are the ends of what it replaces, None where it replaces nothing."""
        assert self.pruned is not None
        (seq, shadowed), self.pruned = self.pruned, None
        is_next = event["type"] == "tool/result" and event["seq"] == seq + 1
        if not is_next or replaced is None or shadowed != [replaced[0]] or replaced[0] != replaced[1]:
            yield warning("INV-38", "the event behind a prune is not the result that replaces the pruned one")
