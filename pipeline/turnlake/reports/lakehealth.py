"""The condition of a lake, told without writing to it: is it there, ours, published, in use, left half done."""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from turnlake.api import MOVED
from turnlake.errors import LakeError
from turnlake.lake.files import damaged_parts
from turnlake.lake.loads import last_load_at
from turnlake.lake.state import Lake

# none: nothing there. unpublished: logs were read, but no database was made of them. outdated: an older format.
# behind: the database is of a state before the current one. unusable: `problem` says why.
Status = Literal["none", "unpublished", "outdated", "behind", "ready", "unusable"]


@dataclass(frozen=True)
class LakeHealth:
    """What is known of a lake. `built_at` is when the last build or ingest had read its logs,
    ISO 8601 in UTC."""

    path: str
    status: Status
    problem: str | None
    format: str | None
    database_bytes: int | None
    built_at: str | None
    is_building: bool
    building_pid: int | None
    leftovers: tuple[str, ...]
    are_folders_behind: bool
    damaged: tuple[str, ...]


def lake_health(path: Path) -> LakeHealth:
    """The condition of the lake at path, whatever is there."""
    lake = Lake(path.absolute())
    status, problem = _status(lake)
    is_building, pid = _running_build(lake.path / ".lock")
    database = _stat(lake.database)
    return LakeHealth(
        path=str(lake.path),
        status=status,
        problem=problem,
        format=_format(lake.path / "format"),
        database_bytes=database.st_size if database else None,
        built_at=last_load_at(lake),
        is_building=is_building,
        building_pid=pid,
        # The work folder of a build that runs is no leftover.
        leftovers=() if is_building else tuple(sorted(work.name for work in lake.path.glob(".build-*"))),
        damaged=_damaged(lake) if status in ("ready", "behind", "unpublished") else (),
        are_folders_behind=status in ("ready", "behind") and not lake.folders_follow(),
    )


def _status(lake: Lake) -> tuple[Status, str | None]:
    try:
        written = lake.check_format()
        current, published = lake.current(), lake.published()
        if current is not None:
            current.manifest()
        has_database = lake.database.exists()
    except LakeError as error:
        return "unusable", str(error)
    except OSError as error:
        advice = "Let the user who built it give access, or name another lake by --lake"
        return "unusable", f"{error.filename or lake.path} can't be read: {error.strerror}. {advice}"
    if written == "new" or (current is None and not has_database):
        return "none", None
    if written == "rebuild":
        return "outdated", None
    if published is None:
        foreign = f"{lake.database} {MOVED}: run `turnlake model --lake {lake.path}`"
        return ("unusable", foreign) if has_database else ("unpublished", None)
    return ("ready" if current and current.id == published.state_id else "behind"), None


def _damaged(lake: Lake) -> tuple[str, ...]:
    """The files of the newest state that are not as they were written; reads them all."""
    state = lake.current()
    parts = damaged_parts(state, by_content=True) if state else ()
    return tuple(sorted(f"{part.table}/{part.name}" for part in parts))


def _format(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(20).decode("ascii", "replace").strip()
    except OSError:
        # Not there; what else may be wrong with it is in the status.
        return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _running_build(lock: Path) -> tuple[bool, int | None]:
    """Whether a build holds the lock, and the process that does, if it has said so."""
    found = _stat(lock)
    if found is None or not stat.S_ISREG(found.st_mode) or not os.access(lock, os.R_OK):
        return False, None
    with lock.open("rb") as file:
        try:
            # A shared lock keeps nobody waiting but a build that starts in this very instant.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = file.read(20).decode("ascii", "replace")
            return True, int(pid) if pid.isdecimal() else None
    return False, None
