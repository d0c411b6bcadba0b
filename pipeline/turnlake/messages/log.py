"""The projection of one log that was read: which of its records count, and what they give up to any event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from turnlake.format.reader import Log
from turnlake.format.record import Record
from turnlake.format.runs import Run
from turnlake.format.values import Object
from turnlake.messages.closers import closers
from turnlake.messages.derive import Projection
from turnlake.messages.frozen import Frozen, Message
from turnlake.messages.requests import fold_request_context, fold_request_header
from turnlake.messages.surface import Surface


class LogProjection:
    """Messages, surface, header and context of a log before any event, and the closers after the last.

    `upto` is a seq: events with a smaller one are seen; None sees all. Asking for rising values of it goes on
    from where the last answer ended; asking for a smaller one folds again, and projects no node twice.
    """

    def __init__(self, records: Iterable[Record], version: int) -> None:
        self.version = version
        self.records = tuple(records)
        self._projection = Projection(version)
        self._seen = 0

    @cached_property
    def events(self) -> tuple[Object, ...]:
        """The events in order of seq, of the chunks, which change no projection, only one that ends the log."""
        events = [record.event for record in self.records if record.run is None]
        if self.records and self.records[-1].run is not None:
            events.append(_last_chunk(self.records[-1], self.records[-1].run))
        return tuple(events)

    @cached_property
    def _requests(self) -> tuple[Object, ...]:
        return tuple(event for event in self.events if event["type"] in ("request/header", "request/context"))

    @cached_property
    def _steps(self) -> tuple[Record, ...]:
        types = self._projection.types
        return tuple([one for one in self.records if one.run is None and one.event["type"] in types])

    def messages(self, upto: int | None = None) -> tuple[Message, ...]:
        """The messages before event upto, deeply frozen."""
        return self._at(upto).messages

    def surface(self, upto: int | None = None) -> Surface:
        """The surface before event upto; its faults tell where the log could not be followed."""
        return self._at(upto).surface

    def request_header(self, upto: int | None = None) -> Frozen | None:
        """The request header in force before event upto."""
        return fold_request_header(self._before(upto))

    def request_context(self, upto: int | None = None) -> Frozen | None:
        """The request context in force before event upto."""
        return fold_request_context(self._before(upto))

    def closers(self) -> tuple[Frozen, ...]:
        """What the harness would append to close an open turn."""
        return closers(self.events, self.version)

    def _before(self, upto: int | None) -> Iterator[Object]:
        return (event for event in self._requests if upto is None or event["seq"] < upto)

    def _at(self, upto: int | None) -> Projection:
        """The projection before event upto."""
        steps = self._steps
        if upto is not None and self._seen and steps[self._seen - 1].seq >= upto:
            self._projection, self._seen = Projection(self.version, self._projection.derived), 0
        while self._seen < len(steps) and (upto is None or steps[self._seen].seq < upto):
            self._projection.see(steps[self._seen].event)
            self._seen += 1
        return self._projection


def log_projection(log: Log) -> LogProjection:
    """The projection of a log: of what the harness accepts, or of all that can be read where it refuses."""
    if log.verdict.verdict == "clean" and log.header is not None:
        return LogProjection(log.records, log.version)
    if log.verdict.verdict == "refused":
        return LogProjection(latest(log.records), log.version)
    return LogProjection((record for record in log.records if is_accepted(log, record)), log.version)


def is_accepted(log: Log, record: Record) -> bool:
    """Whether the harness would accept the record's events."""
    verdict = log.verdict
    return verdict.verdict != "refused" and record.branch == 0 and record.seq < verdict.accepted_event_count


def latest(records: Iterable[Record]) -> list[Record]:
    """The records in order of seq, without those whose seqs a later branch has written again."""
    kept = list(records)
    if not any(record.branch for record in kept):
        return kept
    branches: dict[int, list[Record]] = {}
    for record in kept:
        branches.setdefault(record.branch, []).append(record)
    taken: set[int] = set()
    kept = []
    for number in sorted(branches, reverse=True):
        fresh = [record for record in branches[number] if not taken.issuperset(_seqs(record))]
        taken.update(*map(_seqs, branches[number]))
        kept += fresh
    return sorted(kept, key=lambda record: record.seq)


def _seqs(record: Record) -> range:
    return range(record.seq, record.seq + (1 if record.run is None else record.run.count))


def _last_chunk(record: Record, run: Run) -> Object:
    *_, (time, chunk) = run.chunks()
    data = {"turn": run.turn, "step": run.step, "chunk": chunk}
    return {"type": "assistant/chunk", "seq": _seqs(record)[-1], "time": time, "data": data}
