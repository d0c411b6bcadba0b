"""The surface: which events the model sees, in its order (spec section 10.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from turnlake.format.values import Object, is_int

# The first format version in which an event of that type owns a message.
NODE_SINCE = {
    "user/message": 0,
    "assistant/message": 0,
    "tool/result": 0,
    "system/message": 3,
    "developer/message": 4,
}


def node_types(version: int) -> frozenset[str]:
    """The types of the events that own a message in that format version."""
    return frozenset(kind for kind, since in NODE_SINCE.items() if version >= since)


class Replacement(NamedTuple):
    """An event that took the place of surface nodes: those from `start` to `end`, in surface order `shadowed`."""

    seq: int
    start: int
    end: int
    shadowed: tuple[int, ...]


class Fault(NamedTuple):
    """An event that a projection could not follow to the letter, and what was wrong with it."""

    seq: int
    detail: str


@dataclass(frozen=True)
class Surface:
    """The seqs of the nodes in the model's order; replacements and faults in the order of the log."""

    nodes: tuple[int, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass
class SurfaceFold:
    """The surface under way. `see` takes the events that own a message, their seqs rising."""

    version: int
    nodes: list[int] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _last: int = -1

    def see(self, seq: int, op: Any) -> slice | None:
        """Place an event with that surfaceOp: the nodes that gave way to it, none where it was appended; None if it is
        no node.

        Raises ValueError where its seq is not above the one before.
        """
        if seq <= self._last:
            raise ValueError(f"event {seq} comes after event {self._last}; give each once, in order of seq")
        self._last = seq
        end = len(self.nodes)
        place = slice(end, end)
        if isinstance(op, dict) and op.get("op") == "replace":
            place = self._replaced(seq, *self._range(op)) or place
        elif op != "append":
            self.faults.append(Fault(seq, "says neither append nor replace; it is no node"))
            return None
        self.nodes[place] = [seq]
        return place

    def _range(self, op: Object) -> tuple[Any, Any]:
        return (op.get("startSeq"), op.get("endSeq")) if self.version >= 3 else (op.get("start"), op.get("end"))

    def _replaced(self, seq: int, start: Any, end: Any) -> slice | None:
        first, last = self._place(start), self._place(end)
        if first is None or last is None or first > last:
            # The harness refuses such a log; a reader still shows the message.
            self.faults.append(Fault(seq, f"replaces {start} to {end}, which is no range of the surface"))
            return None
        place = slice(first, last + 1)
        self.replacements.append(Replacement(seq, int(start), int(end), tuple(self.nodes[place])))
        return place

    def _place(self, seq: Any) -> int | None:
        try:
            return self.nodes.index(seq) if is_int(seq) else None
        except ValueError:
            return None

    def surface(self) -> Surface:
        """The surface after all events seen so far."""
        return Surface(tuple(self.nodes), tuple(self.replacements), tuple(self.faults))


def fold_surface(events: Iterable[Object], version: int | None) -> Surface:
    """The surface after events of that format version (None: the tutorial dialect), each once, in order of seq.

    A replacement of what is no range of the surface is appended, an event without a surface operation left out;
    both are in `faults`. Raises ValueError where seqs do not rise.
    """
    fold = SurfaceFold(version or 0)
    nodes = node_types(fold.version)
    for event in events:
        if event["type"] in nodes:
            fold.see(int(event["seq"]), event.get("surfaceOp"))
    return fold.surface()
