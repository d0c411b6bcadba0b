"""Which state the database was built from, told without opening it.

A rename keeps a file's size and modification time. So the record names a database by these two before the
rename that publishes it, and whoever compares them with the file in place knows whether that rename happened.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import orjson

from turnlake.errors import LakeError
from turnlake.files import write_whole

# The database in place and two before it: a reader that opened one goes on across two publications.
KEPT = 3


@dataclass(frozen=True)
class Published:
    """A database: the state it reads, the size and modification time of its file, what else it was built from."""

    state_id: str
    bytes: int
    mtime_ns: int
    inputs: Mapping[str, str] = field(default_factory=dict)

    def is_file(self, path: Path) -> bool:
        """Whether the file at path is this database."""
        try:
            stamp = path.stat()
        except FileNotFoundError:
            return False
        return (stamp.st_size, stamp.st_mtime_ns) == (self.bytes, self.mtime_ns)


@dataclass(frozen=True)
class Record:
    """The databases published last, newest first, and the state whose files the table folders hold, if any whole."""

    databases: tuple[Published, ...] = ()
    folders: str | None = None

    def up_to(self, database: Path) -> tuple[Published, ...]:
        """The entry of the database in place and those before it; () when it is none of them, or not there.

        Entries in front of it are publications that were announced and did not happen.
        """
        return tuple(itertools.dropwhile(lambda entry: not entry.is_file(database), self.databases))

    def announce(self, state_id: str, database: Path, inputs: Mapping[str, str], in_place: Path) -> Record:
        """The record with a database that is about to be put in place."""
        before = (self.up_to(in_place) or self.databases)[: KEPT - 1]
        _make_distinct(database, before)
        stamp = database.stat()
        entry = Published(state_id, stamp.st_size, stamp.st_mtime_ns, dict(inputs))
        return Record((entry, *before), None)

    def settle(self, databases: tuple[Published, ...]) -> Record:
        """The record once the table folders hold the files of the newest of these databases."""
        return replace(self, databases=databases[:KEPT], folders=databases[0].state_id)


def _make_distinct(database: Path, others: tuple[Published, ...]) -> None:
    """Move the modification time on, by whole seconds for coarse file systems, until no other has the same stamp."""
    while any(other.is_file(database) for other in others):
        seconds = 2 * 10**9
        stamp = database.stat()
        os.utime(database, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + seconds))


def read_record(path: Path) -> Record:
    """The record at path, an empty one where there is none. LakeError where it can't be read."""
    try:
        stored = orjson.loads(path.read_bytes())
        return Record(tuple(Published(**entry) for entry in stored["databases"]), stored["folders"])
    except FileNotFoundError:
        return Record()
    except (ValueError, TypeError, KeyError) as error:
        raise LakeError(f"{path} can't be read ({error}). The next `turnlake build` makes it anew.") from error


def write_record(path: Path, record: Record) -> None:
    """Replace the record at path."""
    write_whole(path, orjson.dumps(asdict(record), option=orjson.OPT_SORT_KEYS))
