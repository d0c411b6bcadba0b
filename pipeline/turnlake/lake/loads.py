"""What each run saw and read: one JSON object a line in `<lake>/loads.jsonl`, for the view `raw.loads`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from turnlake.files import open_private
from turnlake.lake.state import Lake

_BACKWARDS = 1 << 16


@dataclass(frozen=True)
class LogRead:
    """A log that a run read: its path and why (new, grown, …)."""

    path: str
    why: str


@dataclass(frozen=True)
class Load:
    """A run. Times are ISO 8601 in UTC; counts are of logs, of this run only."""

    started_at: str
    finished_at: str
    command: str
    logs_seen: int
    logs_read: int
    logs_unchanged: int
    logs_refused: int
    events_added: int
    read: tuple[LogRead, ...] = ()


def append_load(lake: Lake, load: Load) -> None:
    """Add a line for the run; the caller holds the lock.

    A torn last line, of a run that died while writing it, is cut off first: it says nothing that can be read, and
    would spoil the line that follows.
    """
    descriptor = open_private(lake.loads, os.O_RDWR)
    with os.fdopen(descriptor, "r+b") as file:
        file.truncate(_end_of_lines(descriptor))
        file.seek(0, os.SEEK_END)
        file.write(_line(load))
        file.flush()
        os.fsync(descriptor)


def last_load_at(lake: Lake) -> str | None:
    """When the last run that is noted had read its logs, ISO 8601 in UTC; None where no line tells."""
    try:
        lines = lake.loads.read_bytes().split(b"\n")
        return next((str(json.loads(line)["finished_at"]) for line in reversed(lines[:-1]) if line), None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _line(load: Load) -> bytes:
    # Readers refuse a whole file for one lone surrogate, and a path may hold some.
    text = json.dumps(asdict(load), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode() + b"\n"


def _end_of_lines(descriptor: int) -> int:
    """Offset just behind the last newline; 0 without one."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _BACKWARDS)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
