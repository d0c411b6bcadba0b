"""How far a log was read, and whether what is there now is the same log, grown, or another.

A log is known again by its size and modification time alone. One that has grown is trusted to begin as
before where its first bytes and those before the mark are unchanged; no inode is looked at, since backups
and moves change it.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Literal, NamedTuple

from turnlake.sources.container import open_log, read_beside
from turnlake.sources.lines import Mark
from turnlake.sources.logfile import LogFile

PRINT_BYTES = 4096

Change = Literal["new", "unchanged", "grown", "changed"]


class Known(NamedTuple):
    """What a state remembers of a log file; `mark` is None where reading can't go on from a place inside it.

    `parts` are the names of the parts that hold its rows, `head` and `tail` digests of its first bytes and of those
    before the mark. A file that is no log has no parts and `is_log` False.
    """

    source: str
    size: int
    mtime_ns: int
    parts: tuple[str, ...]
    is_log: bool
    mark: Mark | None
    head: str
    tail: str


def fingerprint(file: BinaryIO, mark: Mark) -> tuple[str, str]:
    """Digests of the first bytes of an open log and of those before the mark, at most 4 KiB each."""
    count = min(PRINT_BYTES, mark.offset)
    head = read_beside(file, count, 0)
    tail = read_beside(file, count, mark.offset - count)
    return hashlib.sha256(head).hexdigest()[:32], hashlib.sha256(tail).hexdigest()[:32]


def change_of(log: LogFile, known: Known | None) -> Change:
    """What became of a log since it was read. Opens it only where size or time say that it changed."""
    if known is None:
        return "new"
    if (log.size, log.mtime_ns) == (known.size, known.mtime_ns):
        return "unchanged"
    if log.size <= known.size or known.mark is None or log.entry is not None:
        return "changed"
    try:
        with open_log(log) as file:
            is_same = fingerprint(file, known.mark) == (known.head, known.tail)
    except OSError:
        return "changed"  # reading it will say what is wrong
    return "grown" if is_same else "changed"


def can_be_opened(log: LogFile) -> bool:
    """Whether the log can be opened now."""
    try:
        open_log(log).close()
    except OSError:
        return False
    return True
