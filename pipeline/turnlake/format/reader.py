"""Reading one log: the pass over its lines that everything shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from turnlake.format.records import Record
from turnlake.format.scan import LogName, Scan
from turnlake.format.verdict import Verdict
from turnlake.sources.lines import MAX_LINE, Block, Line, LineReader, Mark, Overlong
from turnlake.sources.logfile import LogFile


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
        """Bring the state up to where reading starts, by the lines before that; `see` gets their records."""
        for line in lines:
            record = self.scan.feed(*line)
            if record is not None:
                see(record)
        self.scan.findings.clear()

    def records(self) -> Iterator[Record]:
        """Every readable line in order. `verdict` is set when this ends."""
        for records in self.record_blocks():
            yield from records

    def record_blocks(self) -> Iterator[Iterator[Record]]:
        """The records of some MB of lines at a time, perhaps none, so that findings can be taken in between.

        Each line is read when its record is asked for: what was parsed last is what is worked on.
        Afterwards `provisional_from` is the number of the first provisional line, None without one, and
        `end_findings` how many of the findings left are about the log's end.
        """
        for block in self.lines.blocks():
            if block.is_provisional and self.provisional_from is None:
                self.provisional_from = block.number
            yield self._records(block)
            if self.scan.is_stopped:
                break
        before = len(self.scan.findings)
        self.verdict = self.scan.finish(self.lines.corrupt)
        self.end_findings = len(self.scan.findings) - before

    def _records(self, block: Block) -> Iterator[Record]:
        feed, offset, provisional = self.scan.feed, block.offset, block.is_provisional
        for line, data in enumerate(block.lines, block.number):
            record = feed(line, offset, data, provisional)
            if record is not None:
                yield record
            elif self.scan.is_stopped:
                return
            offset += (data.length if isinstance(data, Overlong) else len(data)) + 1


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
