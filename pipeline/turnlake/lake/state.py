"""The lake on disk: immutable states of Parquet files, one pointer to the newest, one rename that publishes.

How each step leaves the lake when the process dies right after it is told in
`docs/decisions/0004-states-and-publishing.md`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from turnlake.errors import LakeError, TurnlakeError
from turnlake.files import is_same_file, link_or_copy, make_folder, open_private, to_disk, write_whole
from turnlake.lake.files import Part, RawFiles, describe_parts, state_id
from turnlake.lake.lock import hold_lock
from turnlake.lake.pointers import (
    Published,
    PublishedRecord,
    read_pointer,
    read_record,
    recover,
    stored_manifest,
    write_record,
)
from turnlake.rows.tables import LAKE_FORMAT, TABLES

# In the order a build passes them; a test stops at each.
STEPS = (
    "state staged",
    "state moved",
    "format written",
    "state current",
    "database announced",
    "database published",
    "part linked",
    "part removed",
    "folders settled",
    "state retired",
    "state removed",
)

_RETIRED = ".old"
_ANEW = (
    "`turnlake build` goes on from the state before, where one is kept; else remove the folder .states of the lake and "
    "build again from the logs: then only what is gone from them is lost."
)


@dataclass(frozen=True)
class State:
    """A committed set of Parquet files. Nothing in its table folders ever changes, but for damage and its repair."""

    id: str
    path: Path

    def part_files(self, table: str) -> tuple[Path, ...]:
        """The absolute paths of a table's files, in order."""
        return tuple(sorted((self.path.absolute() / table).glob("*.parquet")))

    def raw_files(self) -> RawFiles:
        """The files of all tables, for the models."""
        loads = self.path.absolute().parent.parent / "loads.jsonl"
        return RawFiles({table: self.part_files(table) for table in TABLES}, loads if loads.exists() else None)

    def manifest(self) -> Mapping[str, Any]:
        """The JSON document that the ingest which wrote the state left for the next one (see `manifest_of`).

        Callers share it and leave it as it is. LakeError where it can't be read.
        """
        try:
            return stored_manifest(self.path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise LakeError(f"{self.path / 'manifest.json'} can't be read: {reason}. {_ANEW}") from error

    def parts(self) -> list[Part]:
        """The files with their digests, as recorded when the state was committed."""
        return [Part(*fields) for fields in self.manifest()["files"]]


def _pass(_step: str) -> None:
    pass


@dataclass(frozen=True)
class Lake:
    """A lake by its folder. All methods that write expect the caller to hold the lock.

    `on_step` is called with each of STEPS once it is done.
    """

    path: Path
    on_step: Callable[[str], None] = field(default=_pass, repr=False, compare=False)

    @property
    def database(self) -> Path:
        """The published database."""
        return self.path / "turnlake.duckdb"

    @property
    def loads(self) -> Path:
        """What each run saw and read, one JSON object a line."""
        return self.path / "loads.jsonl"

    @property
    def summary(self) -> Path:
        """What the last build found in the published database."""
        return self._states / "summary.json"

    @property
    def _states(self) -> Path:
        return self.path / ".states"

    @property
    def _record(self) -> Path:
        return self._states / "published.json"

    @contextmanager
    def lock(self, wait: bool = True, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
        """Keep other builds out while the block runs; makes the lake's folder where it is not there.

        LakeError when the folder can't be used, or, with wait=False, when another build is running.
        """
        try:
            make_folder(self.path)
        except OSError as error:
            raise LakeError(f"{self.path} can't be a lake: {error.strerror}. Name another folder by --lake.") from error
        with hold_lock(self.path / ".lock", wait, on_wait):
            yield

    def work_dir(self) -> Path:
        """A new, empty folder for the running build, below the lake. Whoever made it removes it, else a sweep."""
        work = self.path / f".build-{os.getpid()}"
        if work.exists():
            shutil.rmtree(work)
        make_folder(work)
        return work

    def check_format(self) -> Literal["new", "same", "rebuild"]:
        """Whether the lake is there at all, and whether its files are as this version writes them.

        LakeError when a newer version wrote it, or when files of the same names are there that are no lake's.
        """
        written = self._format()
        if written is None:
            foreign = [name for name in (*TABLES, self.database.name) if (self.path / name).exists()]
            if foreign:
                raise LakeError(f"{self.path} is no lake, but holds {', '.join(foreign)}. Name another by --lake.")
            return "new"
        if written > LAKE_FORMAT:
            raise LakeError(
                f"{self.path} has lake format {written}; this turnlake knows formats up to {LAKE_FORMAT}. "
                f"Install a turnlake that knows format {written}, or name another folder by --lake."
            )
        pointer = self._sound_pointer()
        # The number is raised first, so a build that died before its state was committed left an old state.
        committed = pointer["format"] if pointer else written
        return "rebuild" if min(written, committed) < LAKE_FORMAT else "same"

    def current(self) -> State | None:
        """The newest committed state, published or not; None in a new lake. LakeError where its files are gone."""
        pointer = self._pointer()
        if pointer is None:
            return None
        state = State(pointer["state"], self._states / pointer["state"])
        if not state.path.is_dir():
            raise LakeError(f"{state.path} is gone. {_ANEW}")
        return state

    def published(self) -> Published | None:
        """What the database in place was built from; None where there is none, or none that this lake published."""
        databases = self._databases(read_record(self._record))
        return databases[0] if databases else None

    def published_state(self) -> State | None:
        """The state the database in place was built from, as `published`."""
        published = self.published()
        return State(published.state_id, self._states / published.state_id) if published else None

    def folders_follow(self) -> bool:
        """Whether the table folders hold the files that the database reads. A build sees to that after publishing."""
        record = read_record(self._record)
        databases = self._databases(record)
        return not databases or self._do_folders_hold(record, databases[0].state_id)

    def commit_state(self, work: Path, damaged: Collection[Part] = ()) -> State:
        """Make what is in work a state and the current one: `<table>/*.parquet` of every table, `manifest.json`.

        A part of the state before is carried over by `link_or_copy` into work. New parts become private and are
        on disk when this returns; those equal to one of the state before share its storage, but for those of its files
        that are damaged: new ones equal to these take their place. The folders leave work. TurnlakeError when a table
        has no part.
        """
        before = self.current()
        staged = work / "state"
        parts = self._stage(work, staged, before, damaged)
        self.on_step("state staged")
        state = State(state_id(parts), self._states / state_id(parts))
        make_folder(self._states)
        is_repaired = False
        if state.path.exists():
            is_repaired = _repair(state.path, staged, parts)
            write_whole(state.path / "manifest.json", (staged / "manifest.json").read_bytes())
        else:
            staged.rename(state.path)
            to_disk(self._states)
        # The views of every database read it, also of the first, which is built before the first line is written.
        os.close(open_private(self.loads, os.O_WRONLY))
        self.on_step("state moved")
        write_whole(self.path / "format", b"%d\n" % LAKE_FORMAT)
        self.on_step("format written")
        write_whole(self._states / "current", orjson.dumps({"state": state.id, "format": LAKE_FORMAT}))
        self.on_step("state current")
        if is_repaired:
            write_record(self._record, replace(read_record(self._record), folders=None))
            self._settle()
        return state

    def publish(self, state: State, database: Path, inputs: Mapping[str, str] | None = None) -> None:
        """Put the database, which reads that state, in place of the published one; then let the folders follow.

        database lies in the lake's work folder and is closed. `inputs` says what else it was built from, for
        `published`. TurnlakeError where the database was not closed.
        """
        log = database.with_name(f"{database.name}.wal")
        if log.exists():
            raise TurnlakeError(f"{database} has changes that are not in it yet: it is open, or was not closed.")
        database.chmod(0o600)
        record = read_record(self._record).announce(state.id, database, inputs or {}, self.database)
        to_disk(database)
        write_record(self._record, record)
        self.on_step("database announced")
        # Left by someone who wrote to the database that goes; it must not be taken for the new one's.
        self.database.with_name(f"{self.database.name}.wal").unlink(missing_ok=True)
        database.replace(self.database)
        to_disk(self.path)
        self.on_step("database published")
        self._settle()

    def sweep(self, on_damage: Callable[[str], None] = lambda line: None) -> None:
        """Remove what killed builds left, and finish what they had begun to publish.

        Small files that are damaged are made anew first, each told to on_damage in a line.
        """
        for work in self.path.glob(".build-*"):
            if work.name != f".build-{os.getpid()}":
                shutil.rmtree(work)
        if self._states.exists():
            recover(self._states, on_damage)
            self._settle()
        elif self.database.exists():
            on_damage(f"{self._states} is gone: all is read again; what is gone from the logs too is lost")

    def _format(self) -> int | None:
        # The pointer has the number too, for a lake whose file is damaged.
        pointer = self._sound_pointer()
        try:
            return int((self.path / "format").read_text(encoding="ascii"))
        except (FileNotFoundError, NotADirectoryError):
            return pointer["format"] if pointer else None
        except ValueError as error:
            if pointer:
                return int(pointer["format"])
            raise LakeError(f"{self.path / 'format'} is not a number. Name another folder by --lake.") from error

    def _sound_pointer(self) -> dict[str, Any] | None:
        try:
            return self._pointer()
        except LakeError:
            return None

    def _pointer(self) -> dict[str, Any] | None:
        path = self._states / "current"
        pointer = read_pointer(path)
        if pointer is None and path.exists():
            raise LakeError(f"{path} names no state. {_ANEW}")
        return pointer

    def _databases(self, record: PublishedRecord) -> tuple[Published, ...]:
        databases = record.up_to(self.database)
        return databases if databases and (self._states / databases[0].state_id).is_dir() else ()

    def _stage(self, work: Path, staged: Path, before: State | None, damaged: Collection[Part]) -> list[Part]:
        make_folder(staged)
        for table in TABLES:
            (work / table).rename(staged / table)
            (staged / table).chmod(0o700)
        sound = [part for part in before.parts() if part not in damaged] if before else []
        parts = describe_parts(staged, sound, before.path if before else staged)
        manifest = orjson.loads((work / "manifest.json").read_bytes())
        content = orjson.dumps({**manifest, "files": [tuple(part) for part in parts]}, option=orjson.OPT_SORT_KEYS)
        write_whole(staged / "manifest.json", content)
        return parts

    def _settle(self) -> None:
        """All that follows once a database is in place; again from the start where it was cut short."""
        record = read_record(self._record)
        databases = self._databases(record)
        if databases:
            if not self._do_folders_hold(record, databases[0].state_id):
                self._let_folders_follow(State(databases[0].state_id, self._states / databases[0].state_id))
            if record != record.settle(databases):
                record = record.settle(databases)
                write_record(self._record, record)
                self.on_step("folders settled")
        elif self.database.exists():
            return  # which state it reads is not known
        pointer = self._pointer()
        kept = {entry.state_id for entry in record.databases} | ({pointer["state"]} if pointer else set())
        self._remove_states(kept)

    def _do_folders_hold(self, record: PublishedRecord, state_id: str) -> bool:
        """Whether the table folders hold the files of that state: by the record, and none was removed or cut since."""
        parts = ((t, part) for t in TABLES for part in State(state_id, self._states / state_id).part_files(t))
        return record.folders == state_id and all(_is_as_long(part, self.path / t / part.name) for t, part in parts)

    def _let_folders_follow(self, state: State) -> None:
        for table in TABLES:
            folder = self.path / table
            make_folder(folder)
            parts = state.part_files(table)
            for part in parts:
                if not is_same_file(part, folder / part.name):
                    link_or_copy(part, folder / part.name)
                    self.on_step("part linked")
            names = {part.name for part in parts}
            for stale in sorted({*folder.glob("*.parquet"), *folder.glob("*.parquet.new")}):
                if stale.name not in names:
                    stale.unlink()
                    self.on_step("part removed")
            to_disk(folder)

    def _remove_states(self, kept: set[str]) -> None:
        unwanted = sorted(path for path in self._states.iterdir() if path.is_dir() and path.name not in kept)
        for left in (path for path in unwanted if path.suffix == _RETIRED):
            shutil.rmtree(left)
        for folder in (path for path in unwanted if path.suffix != _RETIRED):
            # Removing takes a while; a folder that bears the bare name of a state is always whole.
            retired = folder.rename(folder.with_name(folder.name + _RETIRED))
            self.on_step("state retired")
            shutil.rmtree(retired)
            self.on_step("state removed")


def _is_as_long(one: Path, other: Path) -> bool:
    """Whether both files are there, of one size."""
    try:
        return one.stat().st_size == other.stat().st_size
    except OSError:
        return False


def _repair(state: Path, staged: Path, parts: Iterable[Part]) -> bool:
    """Put files of what is staged, which are sound, in place of those of the same state that may not be; if any."""
    others = [
        part for part in parts if not is_same_file(staged / part.table / part.name, state / part.table / part.name)
    ]
    for part in others:
        folder = state / part.table
        make_folder(folder)
        link_or_copy(staged / part.table / part.name, folder / part.name)
        to_disk(folder)
    return bool(others)
