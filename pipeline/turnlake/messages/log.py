"""One log read whole: its header, verdict, findings and events, and what these give up to any event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

from turnlake.errors import SourceError
from turnlake.findings import Finding
from turnlake.format.header import Header, read_version
from turnlake.format.reader import LogPass
from turnlake.format.records import ChunkLine, EventLine, Record, logical_events
from turnlake.format.values import Object
from turnlake.format.verdict import Verdict
from turnlake.messages.closers import closers
from turnlake.messages.derive import Projection
from turnlake.messages.frozen import Frozen, Message
from turnlake.messages.requests import fold_request_context, fold_request_header
from turnlake.messages.surface import Surface
from turnlake.sources.container import container_of, open_log
from turnlake.sources.discover import find_logs
from turnlake.sources.lines import MAX_LINE
from turnlake.sources.source import parse_source


class Placed(Protocol):
    """What stands for `count` events of a log, the first of them `seq`, in one of its branches."""

    @property
    def branch(self) -> int: ...  # noqa: D102
    @property
    def seq(self) -> int: ...  # noqa: D102
    @property
    def count(self) -> int: ...  # noqa: D102


T = TypeVar("T", bound=Placed)


@dataclass(frozen=True)
class Log:
    """A log read whole.

    `events` are its logical events as mappings in order, packed chunks expanded, older shapes normalised: those
    that the harness accepts, or every readable one where it refuses the log.
    """

    header: Header | None
    verdict: Verdict
    findings: tuple[Finding, ...]
    records: tuple[Record, ...]
    # As the file name states it; None where the name is not canonical.
    generation: int | None = None

    def __repr__(self) -> str:
        name = None if self.header is None else self.header.id
        return f"<Log {name!r}: {self.verdict.verdict}, {self.verdict.event_count} events>"

    @property
    def version(self) -> int:
        """The format version by which the events are read; 0 without a header."""
        return read_version(self.header, self.generation)

    @cached_property
    def projection(self) -> LogProjection:
        """What the events give: messages, surface, header and context before any of them, and closers."""
        return LogProjection(projected(self.records, self.verdict, has_header=self.header is not None), self.version)

    def derive_messages(self, upto: int | None = None) -> tuple[Message, ...]:
        """The messages that the events with a seq below upto give (None: all events), deeply frozen."""
        return self.projection.messages(upto)

    @cached_property
    def events(self) -> tuple[Object, ...]:
        """The logical events."""
        if self.verdict.verdict == "refused":
            return tuple(logical_events(self.records))
        return tuple(logical_events(one for one in self.records if is_accepted(self.verdict, one)))


def read_log(path: str | Path, *, max_line: int = MAX_LINE) -> Log:
    """Read one log file of any format, raw or zstd.

    Raises SourceError where path is no readable log file; whatever is wrong inside it is in the verdict and the
    findings.
    """
    logs = find_logs([parse_source(str(path))]).logs
    if len(logs) != 1:
        raise SourceError(f"{path}: holds {len(logs)} logs; name one log file")
    try:
        with open_log(logs[0], max_line) as file:
            reading = LogPass(logs[0], file, container_of(logs[0]), max_line)
            records = tuple(reading.records())
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    assert reading.verdict is not None  # set when records() ends
    return Log(reading.scan.header, reading.verdict, tuple(reading.scan.findings), records, logs[0].generation)


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
        events = [record.event for record in self.records if isinstance(record, EventLine)]
        if self.records and isinstance(self.records[-1], ChunkLine):
            *_, last = self.records[-1].logical()
            events.append(last)
        return tuple(events)

    @cached_property
    def _requests(self) -> tuple[Object, ...]:
        return tuple(event for event in self.events if event["type"] in ("request/header", "request/context"))

    @cached_property
    def _steps(self) -> tuple[Object, ...]:
        types = self._projection.types
        return tuple([event for event in self.events if event["type"] in types])

    def messages(self, upto: int | None = None) -> tuple[Message, ...]:
        """The messages before event upto, deeply frozen."""
        return self._at(upto).messages

    def surface(self, upto: int | None = None) -> Surface:
        """The surface before event upto; its faults name where the log could not be followed."""
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
        if upto is not None and self._seen and steps[self._seen - 1]["seq"] >= upto:
            self._projection, self._seen = Projection(self.version, self._projection.derived), 0
        while self._seen < len(steps) and (upto is None or steps[self._seen]["seq"] < upto):
            self._projection.see(steps[self._seen])
            self._seen += 1
        return self._projection


def projected(placed: Sequence[T], verdict: Verdict, *, has_header: bool) -> Sequence[T]:
    """What of a log its projection is of: all that the harness accepts, or all that can be read where it refuses."""
    if verdict.verdict == "clean" and has_header:
        return placed
    if verdict.verdict == "refused":
        return latest(placed)
    return [one for one in placed if is_accepted(verdict, one)]


def is_accepted(verdict: Verdict, placed: Placed) -> bool:
    """Whether the harness would accept these events."""
    return verdict.verdict != "refused" and placed.branch == 0 and placed.seq < verdict.accepted_event_count


def latest(placed: Iterable[T]) -> list[T]:
    """Records in order of seq, without those whose seqs a later branch has written again."""
    kept = list(placed)
    if not any(one.branch for one in kept):
        return kept
    branches: dict[int, list[T]] = {}
    for one in kept:
        branches.setdefault(one.branch, []).append(one)
    taken: set[int] = set()
    kept = []
    for number in sorted(branches, reverse=True):
        fresh = [one for one in branches[number] if not taken.issuperset(_seqs(one))]
        taken.update(*map(_seqs, branches[number]))
        kept += fresh
    return sorted(kept, key=lambda one: one.seq)


def _seqs(placed: Placed) -> range:
    return range(placed.seq, placed.seq + placed.count)
