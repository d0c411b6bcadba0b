"""A readable line of a log."""

from __future__ import annotations

from dataclasses import dataclass

from turnlake.format.runs import Run
from turnlake.format.sources import Ranges, expand
from turnlake.format.values import Object


@dataclass(slots=True)
class Record:
    """One readable line: an event, or a run of chunks (`run`), with the branch and seq of its first event.

    `event` is the parsed line, its older or foreign shapes normalised; `sources` its decoded
    sourceEventSeqs; `stream` the runs embedded in it, None where it has none or they are malformed.
    `keep_line` is set where event, run and stream do not tell all that the line says, `is_odd` where only the
    standard parser could read the line, and its strings may hold lone surrogates.
    """

    line: int
    offset: int
    raw: bytes
    is_provisional: bool
    branch: int
    seq: int
    time_ms: int | None
    event: Object
    run: Run | None
    keep_line: bool
    is_odd: bool
    sources: Ranges | None = None
    stream: list[Run] | None = None
    is_known: bool = True
    # legacy or tutorial, where the event was written in such a shape.
    normalised_from: str | None = None

    def logical(self) -> Object:
        """The event with its sourceEventSeqs expanded; for a record without run."""
        return self.event if self.sources is None else self.event | {"sourceEventSeqs": expand(self.sources)}
