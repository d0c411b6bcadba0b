"""The small files that lead to a state: which one is current, and which one the database was built from.

A rename keeps a file's size and modification time. So the record names a database by these two before the rename that
publishes it, and whoever compares them with the file in place knows whether that rename happened, without opening it.

Where these files are damaged they are written again from the states, which hold all that counts. If the pointer is
damaged, a state is gone, or its manifest can't be read, the newest state that is whole takes its place, and what was
read since is read again.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from turnlake.errors import LakeError
from turnlake.files import write_whole
from turnlake.rows.tables import LAKE_FORMAT

STATE_ID = re.compile(r"[0-9a-f]{16}")
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
            status = path.stat()
        except FileNotFoundError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.bytes, self.mtime_ns)


@dataclass(frozen=True)
class PublishedRecord:
    """The databases published last, newest first, and the state whose files the table folders hold, if any whole."""

    databases: tuple[Published, ...] = ()
    folders: str | None = None

    def up_to(self, database: Path) -> tuple[Published, ...]:
        """The entry of the database in place and those before it; () when it is none of them, or not there.

        Entries in front of it are publications that were announced and did not happen.
        """
        return tuple(itertools.dropwhile(lambda entry: not entry.is_file(database), self.databases))

    def announce(self, state_id: str, database: Path, inputs: Mapping[str, str], in_place: Path) -> PublishedRecord:
        """The record with a database that is about to be put in place."""
        before = (self.up_to(in_place) or self.databases)[: KEPT - 1]
        _make_distinct(database, before)
        status = database.stat()
        entry = Published(state_id, status.st_size, status.st_mtime_ns, dict(inputs))
        return PublishedRecord((entry, *before), None)

    def settle(self, databases: tuple[Published, ...]) -> PublishedRecord:
        """The record once the table folders hold the files of the newest of these databases."""
        return replace(self, databases=databases[:KEPT], folders=databases[0].state_id)


def _make_distinct(database: Path, others: tuple[Published, ...]) -> None:
    """Move the modification time on, by whole seconds for coarse file systems, until no other database has the same."""
    while any(other.is_file(database) for other in others):
        seconds = 2 * 10**9
        status = database.stat()
        os.utime(database, ns=(status.st_atime_ns, status.st_mtime_ns + seconds))


def read_record(path: Path) -> PublishedRecord:
    """The record at path, an empty one where there is none. LakeError where it can't be read."""
    try:
        stored = orjson.loads(path.read_bytes())
        return PublishedRecord(tuple(Published(**entry) for entry in stored["databases"]), stored["folders"])
    except FileNotFoundError:
        return PublishedRecord()
    except (ValueError, TypeError, KeyError) as error:
        raise LakeError(f"{path} can't be read ({error}). The next `turnlake build` makes it anew.") from error


def write_record(path: Path, record: PublishedRecord) -> None:
    """Replace the record at path."""
    write_whole(path, orjson.dumps(asdict(record), option=orjson.OPT_SORT_KEYS))


def recover(states: Path, on_damage: Callable[[str], None]) -> None:
    """Mend `format`, `current` and `published.json` of the lake that the folder `states` belongs to, if they need it.

    Nothing is done to a lake without `format` and `current`: its first build died.
    """
    _mend_record(states / "published.json", on_damage)
    pointer = read_pointer(states / "current")
    number = states.parent / "format"
    if pointer is not None and not _is_number(number):
        on_damage(f"{number} was damaged: it is {pointer['format']} again")
        write_whole(number, b"%d\n" % pointer["format"])
    if not number.exists() or (pointer is not None and _has_manifest(states / pointer["state"])):
        return
    whole = [path for path in states.iterdir() if STATE_ID.fullmatch(path.name) and _has_manifest(path)]
    if whole:
        newest = max(whole, key=lambda path: ((path / "manifest.json").stat().st_mtime_ns, path.name))
        on_damage(f"the newest state of {states} can't be read: going on from {newest.name}, which may be older")
        written = pointer["format"] if pointer is not None else min(int(number.read_text("ascii")), LAKE_FORMAT)
        write_whole(states / "current", orjson.dumps({"state": newest.name, "format": written}))


def read_pointer(path: Path) -> dict[str, Any] | None:
    """State and format that the pointer at path names; None where it is not there or names none."""
    try:
        pointer = orjson.loads(path.read_bytes())
        if STATE_ID.fullmatch(pointer["state"]) and isinstance(pointer["format"], int):
            return {"state": pointer["state"], "format": pointer["format"]}
    except (OSError, ValueError, TypeError, KeyError):
        pass  # as good as none
    return None


def _mend_record(path: Path, on_damage: Callable[[str], None]) -> None:
    try:
        read_record(path)
    except LakeError:
        on_damage(f"{path} was damaged: the database is built anew")
        path.unlink()


def _is_number(path: Path) -> bool:
    try:
        return path.read_text(encoding="ascii").strip().isdecimal()
    except (OSError, ValueError):
        return False


def _has_manifest(state: Path) -> bool:
    try:
        stored_manifest(state)
    except (OSError, ValueError):
        return False
    return True


def stored_manifest(state: Path) -> Mapping[str, Any]:
    """The JSON document in the manifest of a state; callers share it. OSError or ValueError where it can't be read."""
    path = state / "manifest.json"
    status = path.stat()
    return _manifest(path, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=4)
def _manifest(path: Path, _identity: tuple[int, int, int]) -> Mapping[str, Any]:
    """A manifest of 10,000 logs has some MB, and a build asks several times for the same two."""
    stored = orjson.loads(path.read_bytes())
    if not isinstance(stored, dict):
        raise ValueError("no object")
    return MappingProxyType(stored)
