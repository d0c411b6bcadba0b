"""A log to read: where it is, and what its place and name say."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from turnlake.sources.layout import generation_of, shown_path
from turnlake.sources.remote import Access, is_url


# Asked for several times a log by each build, also by one that finds nothing new.
@lru_cache(maxsize=1 << 17)
def _log_id(source: str, path: str) -> str:
    return hashlib.sha256(f"{source}\0{path}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log to read. `path` names it below its source, `os_path` and `entry` say what to open.

    `os_path` of an object is its URL; `access` is what else opening it takes, and is never shown or stored.
    """

    source: str
    machine: str | None
    path: str
    os_path: str
    entry: str | None
    size: int
    mtime_ns: int
    access: Access = field(default=(), repr=False, compare=False)
    # Then `entry` is the name of the session's folder if it had one.
    is_in_store: bool = False

    @property
    def log_id(self) -> str:
        """What identifies the log in a lake: 16 hex digits over the source's name and the path."""
        return _log_id(self.source, self.path)

    @property
    def file(self) -> Path:
        """The absolute path to open; of a log in an archive or store that one's."""
        return Path(self.os_path)

    @property
    def is_remote(self) -> bool:
        """Whether the log is an object in a store."""
        return is_url(self.os_path)

    @property
    def place(self) -> str:
        """Where the log is, as findings name it: the shown absolute path, `file!/entry` in an archive or store."""
        shown = shown_path(self.os_path)
        return shown if self.entry is None else f"{shown}!/{self.entry}"

    @property
    def file_name(self) -> str:
        """Name of the file, or of the entry without its folders."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folder the log lies in, below its source: all generations of a session share it."""
        return self.path.rpartition("/")[0]

    @property
    def generation(self) -> int | None:
        """The generation the name states; None for a name that is not canonical."""
        return None if self.is_in_store else generation_of(self.file_name)

    @property
    def is_canonical(self) -> bool:
        """Whether the harness would take the file for a session's log by its name."""
        return self.generation is not None
