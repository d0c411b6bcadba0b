"""Sessions of a database shared out among processes, each of which reads the database by itself."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

from turnlake.check.database import check_sessions, reading, sessions_of, store, written
from turnlake.check.outcome import Check, Session
from turnlake.parquet import engine

# Bytes of lines of the sessions that are compared at a time: their payloads and content are held at once.
MOST_BYTES = 64 << 20
# Below this another process costs more than it spares.
LEAST_BYTES = 32 << 20
# What each process may use before it spills to disk.
MEMORY_EACH = "150MB"


def fill_database(database: Path, workers: int, memory: str | None = None) -> list[Check]:
    """Check each session of a database nobody reads yet that has no check; the rows made, in order."""
    with written(database, memory, workers) as db:
        sessions = sessions_of(db, are_unchecked=True)
        if len(_shares(sessions, workers)) <= 1:
            checks = check_sessions(db, sessions)
            store(db, checks)
            return checks
    checks = check_shared(database, sessions, database.parent, workers, memory)
    with written(database, memory, workers) as db:
        store(db, checks)
    return checks


def check_shared(
    database: Path,
    sessions: Sequence[Session],
    spill: Path,
    workers: int,
    memory: str | None = None,
    *,
    is_thorough: bool = False,
) -> list[Check]:
    """The check of each session by its proof, in order of their ids; no connection may be open here.

    Each process has some of `memory`, a size as DuckDB takes it, and a folder of its own below `spill`. Whoever bounds
    memory gets one process only.
    """
    shares = _shares(sessions, workers)
    processes = 1 if memory else min(workers, len(shares))
    limits = (memory, workers) if processes == 1 else (MEMORY_EACH, 1)
    job = functools.partial(_check, database=database, spill=spill, limits=limits, is_thorough=is_thorough)
    checks = [check for some in engine.run(job, shares, processes) for check in some]
    return sorted(checks, key=lambda check: check.session_id)


def _check(
    sessions: Sequence[Session], database: Path, spill: Path, limits: tuple[str | None, int], is_thorough: bool
) -> list[Check]:
    with reading(database, spill / f"spill-{os.getpid()}", *limits) as db:
        return check_sessions(db, sessions, is_thorough=is_thorough)


def _shares(sessions: Sequence[Session], workers: int) -> list[list[Session]]:
    """The sessions in their order, in groups of about the same size: as many for each worker."""
    total = sum(session.decoded_bytes for session in sessions)
    if total <= LEAST_BYTES:
        return [list(sessions)] if sessions else []
    rounds = ceil(total / MOST_BYTES / workers)
    return list(_groups(sessions, total / (rounds * workers)))


def _groups(sessions: Sequence[Session], size: float) -> Iterator[list[Session]]:
    group: list[Session] = []
    held = 0
    for session in sessions:
        group.append(session)
        held += session.decoded_bytes
        if held >= size:
            yield group
            group, held = [], 0
    if group:
        yield group
