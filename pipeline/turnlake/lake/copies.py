"""Whether one log is the beginning of another, and the facts by which `sessions.resolve` decides which logs count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

import orjson

from turnlake.findings import Finding
from turnlake.lake.sessions import LogFacts
from turnlake.rows.writer import Row
from turnlake.sources.container import container_of, open_log
from turnlake.sources.lines import LineReader, Overlong, read_lines
from turnlake.sources.logfile import LogFile

LineData = bytes | Overlong


class Comparison:
    """Compares logs with each other, their files where these are there (see `sessions.SameStart`).

    `answers` holds what was found out about pairs of files: the next ingest passes it as `remembered`, and compares
    only pairs of which one was read. `findings` are about pairs that can't be compared, by log_id.
    """

    def __init__(
        self,
        files: Mapping[str, LogFile],
        read: Collection[str],
        remembered: Mapping[tuple[str, str], bool],
        stored_lines: Callable[[str], Iterable[LineData]],
    ) -> None:
        self._files = files
        self._read = read
        self._remembered = remembered
        self._stored_lines = stored_lines
        self.answers: dict[tuple[str, str], bool] = {}
        self.findings: list[tuple[str, Finding]] = []

    def same_start(self, longer: str, shorter: str) -> bool:
        """Whether a log begins with all lines of the other, by log_id; False where one of them can't be read."""
        try:
            return self._compare(longer, shorter)
        except OSError as error:
            detail = f"{longer} and {shorter} can't be compared: {error.strerror or error}"
            self.findings.append((longer, Finding("unreadable_file", detail)))
            return False

    def _compare(self, longer: str, shorter: str) -> bool:
        pair = (longer, shorter)
        answer = None if longer in self._read or shorter in self._read else self._remembered.get(pair)
        if answer is None:
            answer = starts_with(self._lines(longer), self._lines(shorter))
            if longer not in self._files or shorter not in self._files:
                return answer  # stored rows may hold less than files
        self.answers[pair] = answer
        return answer

    def _lines(self, log_id: str) -> Iterable[LineData]:
        file = self._files.get(log_id)
        return self._stored_lines(log_id) if file is None else durable_lines_of(file)


def facts_of(row: Row) -> LogFacts:
    """What decides about a log, from its row of `logs`."""
    path = row["path"]
    return LogFacts(
        log_id=row["log_id"],
        source=row["source"],
        path=path,
        folder=path.rpartition("/")[0],
        generation=row["generation"],
        header_id=row.get("header_id"),
        created_at_ms=row.get("created_at_ms"),
        format_version=row.get("format_version"),
        record_count=row.get("line_count") or 0,
        event_count=row.get("event_count") or 0,
        last_event_ms=row.get("last_event_ms"),
        is_read=row["is_read"],
        container=row.get("container") or "raw",
        is_missing=row["is_missing"],
    )


def durable_lines_of(log: LogFile) -> Iterator[LineData]:
    """The durable lines of a log; of a damaged one those up to the damage. OSError where it can't be read."""
    with open_log(log) as file:
        yield from durable_lines(LineReader(file, container_of(log)))


def durable_lines(reader: LineReader) -> Iterator[LineData]:
    """The lines of a log without its header line, up to where a torn end begins.

    The header is left out since that of a backup may state another version; what a torn frame left, since the
    harness writes it again.
    """
    for line in read_lines(reader):
        if line.is_provisional:
            return
        if line.number > 1:
            yield line.data


def starts_with(longer: Iterable[LineData], shorter: Iterable[LineData]) -> bool:
    """Whether the lines of longer begin with all lines of shorter. Reads no further than the first difference.

    Lines that say the same in other words are equal: what is stored of a log that is gone need not have its bytes.
    """
    following = chain(longer, [None])
    return all(_same(line, next(following)) for line in shorter)


def _same(one: LineData, other: LineData | None) -> bool:
    if one == other:
        return True
    if not isinstance(one, bytes) or not isinstance(other, bytes):
        return False
    try:
        return bool(orjson.loads(one) == orjson.loads(other))
    except orjson.JSONDecodeError:
        return False
