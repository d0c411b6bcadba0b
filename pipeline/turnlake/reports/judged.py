"""What files are, found by reading them: for those of which no lake tells."""

from __future__ import annotations

from typing import NamedTuple

from turnlake.format.reader import LogPass
from turnlake.sources.container import container_of, open_log
from turnlake.sources.lines import MAX_LINE
from turnlake.sources.logfile import LogFile


class RefusedLog(NamedTuple):
    """A log that the harness would refuse: where it is, why, from which line on, and whether its lines were read."""

    source: str
    path: str
    reason: str | None
    line: int | None
    is_read: bool | None


def is_log(log: LogFile) -> bool:
    """Whether the file is a log, by its first lines where its name does not say so.

    One that can't be opened is taken for one: its finding tells of it.
    """
    if log.is_canonical:
        return True
    try:
        with open_log(log, MAX_LINE) as file:
            reading = LogPass(log, file, container_of(log))
            # Without a complete line the pass is at its end, and has judged that too.
            for records in reading.record_blocks():
                next(records, None)
                break
    except OSError:
        return True
    return not reading.scan.is_no_log


def refused(log: LogFile) -> RefusedLog | None:
    """The log, read whole, if the harness would refuse it or it can't be read; else None."""
    try:
        with open_log(log, MAX_LINE) as file:
            reading = LogPass(log, file, container_of(log))
            for _ in reading.records():
                pass
    except OSError:
        return RefusedLog(log.source, log.path, "unreadable", None, False)
    verdict = reading.verdict
    if verdict is None or verdict.verdict != "refused":
        return None
    is_read = not reading.scan.is_stopped and verdict.dialect is not None
    return RefusedLog(log.source, log.path, verdict.reason, verdict.line, is_read)
