"""The chunks of a step, attempt by attempt (v0 and v1), and the messages that cite them: INV-25."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnlake.format.breach import Breach
from turnlake.format.runs import Run
from turnlake.format.sources import Ranges, pairs


class Slots:
    """The chunks of the current step, attempt by attempt (v0 and v1): INV-25."""

    def __init__(self) -> None:
        self._key: tuple[Any, Any] | None = None
        self._slots: list[Ranges] = []
        self._is_closed = True
        # Whether the log had any chunk so far.
        self.has_any = False

    def clear(self) -> None:
        """Forget all; a step begins or ends."""
        self._slots, self._is_closed, self._key = [], True, None

    def close(self) -> None:
        """The next chunk belongs to another attempt."""
        self._is_closed = True

    def add(self, seq: int, run: Run, count: int) -> None:
        """A run of count chunks whose first chunk has that seq."""
        key = (run.turn, run.step)
        if self._is_closed or self._key != key:
            self._slots.append([])
            self._key = key
            self.has_any = True
        ranges = self._slots[-1]
        if ranges and ranges[-1] == seq - 1:
            ranges[-1] = seq + count - 1
        else:
            ranges += (seq, seq + count - 1)
        self._is_closed = run.chunk_type == "finish"

    def settle(self, sources: Ranges | None) -> Iterator[Breach]:
        """A message with these sources ends the attempt."""
        self.close()
        if not sources or (self._slots and self._slots[-1] == sources):
            return
        fits = any(all(_within(first, last, slot) for first, last in pairs(sources)) for slot in self._slots)
        if not fits or any(a >= b for a, b in zip(sources[1::2], sources[2::2], strict=False)):
            yield Breach("INV-25", "error", "cites chunks that are not those of one attempt of its step, in order")


def _within(first: int, last: int, ranges: Ranges) -> bool:
    return any(start <= first and last <= end for start, end in pairs(ranges))
