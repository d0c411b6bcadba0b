"""Reading one log: the pass that everything shares, and `read_log` for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from turnlake.errors import SourceError
from turnlake.findings import Finding
from turnlake.format.header import Header
from turnlake.format.record import Record
from turnlake.format.scan import Scan
from turnlake.format.start import LogName
from turnlake.format.values import Object
from turnlake.format.verdict import Verdict
from turnlake.format.vocabulary import NEWEST_VERSION
from turnlake.sources.container import container_of, open_log
from turnlake.sources.discover import find_logs
from turnlake.sources.lines import MAX_LINE, Block, Line, LineReader, Mark, Overlong
from turnlake.sources.logfile import LogFile
from turnlake.sources.source import parse_source

if TYPE_CHECKING:
    from turnlake.messages.frozen import Message
    from turnlake.messages.log import LogProjection


class LogPass:
    """One pass over an opened log: iterate over `records()` or `record_blocks()`, then ask for the verdict."""

    def __init__(
        self, log: LogFile, file: BinaryIO, container: str, max_line: int = MAX_LINE, start: Mark | None = None
    ) -> None:
        self.container = container
        self.lines = LineReader(file, container, max_line, start or Mark())
        self.scan = new_scan(log)
        self.verdict: Verdict | None = None
        self.provisional_from: int | None = None
        self.end_findings = 0

    def replay(self, lines: Iterable[Line], see: Callable[[Record], None]) -> None:
        """Bring the state up to where reading starts, by the lines before that; `see` is told of their records."""
        for line in lines:
            record = self.scan.feed(*line)
            if record is not None:
                see(record)
        self.scan.findings.clear()

    def records(self) -> Iterator[Record]:
        """Every readable line in order. `verdict` is set when this ends."""
        for records in self.record_blocks():
            yield from records

    def record_blocks(self) -> Iterator[list[Record]]:
        """The records of some MB of lines at a time, perhaps none, so that findings can be taken in between.

        Afterwards `provisional_from` is the number of the first provisional line, None without one, and
        `end_findings` how many of the findings left are about the log's end.
        """
        for block in self.blocks():
            yield self._feed(block)

    def blocks(self) -> Iterator[Block]:
        """The lines of the log, for whoever feeds them to the scan; else as `record_blocks`."""
        for block in self.lines.blocks():
            if block.is_provisional and self.provisional_from is None:
                self.provisional_from = block.number
            yield block
            if self.scan.is_stopped:
                break
        before = len(self.scan.findings)
        self.verdict = self.scan.finish(self.lines.corrupt)
        self.end_findings = len(self.scan.findings) - before

    def _feed(self, block: Block) -> list[Record]:
        feed, offset, provisional = self.scan.feed, block.offset, block.is_provisional
        records = []
        for line, data in enumerate(block.lines, block.number):
            record = feed(line, offset, data, provisional)
            if record is not None:
                records.append(record)
            elif self.scan.is_stopped:
                break
            offset += (data.length if isinstance(data, Overlong) else len(data)) + 1
        return records


def new_scan(log: LogFile) -> Scan:
    """The state of a log before its first line."""
    stem = Path(log.folder).name if log.is_canonical and log.folder else Path(log.file_name).stem
    return Scan(LogName(log.generation, stem or "session", *_folders(log)))


def _folders(log: LogFile) -> tuple[str | None, str | None]:
    """The session and the project folder; None where the log is in no such place, or its source is not above it."""
    if not log.is_canonical or log.entry is not None:
        return None, None
    *_, project, session = None, None, *filter(None, log.folder.split("/"))
    return session, project


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

    @property
    def version(self) -> int:
        """The format version by which the events are read; 0 without a header."""
        if self.header is None:
            return 0
        stated = self.header.version
        return min(stated if stated is not None else self.generation or 0, NEWEST_VERSION)

    @cached_property
    def projection(self) -> LogProjection:
        """What the events give: messages, surface, header and context before any of them, and closers."""
        # Reading stands before projecting in the flow; only this convenience looks ahead.
        from turnlake.messages.log import log_projection

        return log_projection(self)

    def derive_messages(self, upto: int | None = None) -> tuple[Message, ...]:
        """The messages that the events with a seq below upto give (None: all events), deeply frozen."""
        return self.projection.messages(upto)

    @cached_property
    def events(self) -> tuple[Object, ...]:
        """The logical events."""
        if self.verdict.verdict == "refused":
            return tuple(logical_events(self.records))
        accepted = self.verdict.accepted_event_count
        return tuple(logical_events(r for r in self.records if r.branch == 0 and r.seq < accepted))


def logical_events(records: Iterator[Record] | tuple[Record, ...]) -> Iterator[Object]:
    """The events of records in order, each run expanded into one assistant/chunk event a chunk."""
    for record in records:
        run = record.run
        if run is None:
            yield record.logical()
        elif run.chunk is not None:
            yield record.event
        else:
            for seq, (time, chunk) in enumerate(run.chunks(), record.seq):
                data = {"turn": run.turn, "step": run.step, "chunk": chunk}
                yield {"type": "assistant/chunk", "seq": seq, "time": time, "data": data}


def read_log(path: str | Path, *, max_line: int = MAX_LINE) -> Log:
    """Read one log file of any format, raw or zstd.

    Raises SourceError where path is no readable log file; whatever is wrong inside it is told by the verdict
    and the findings.
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
