"""Sessions of a database shared out among processes, each of which reads the database by itself."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

import duckdb

from turnlake.check.database import MEMORY_MB, check_sessions, reading, sessions_of, store, written
from turnlake.check.outcome import Check, Session
from turnlake.check.weight import HEAVY, memory_for, parsed_at_once
from turnlake.lake import workers as engine
from turnlake.lake.state import State
from turnlake.models.changes import files_of, parts_of

# Bytes of lines of the sessions that are compared at a time.
MOST_BYTES = 64 << 20
# A share of more than this is one big session, or has one.
MOST_TOGETHER = MOST_BYTES * 2
# Below this another process costs more than it spares.
LEAST_BYTES = 32 << 20
# What each process may use before it spills to disk.
MEMORY_EACH = "150MB"


@dataclass(frozen=True)
class Share:
    """Sessions that are compared together, and the files that hold their events."""

    sessions: tuple[Session, ...]
    files: tuple[Path, ...]

    @property
    def decoded_bytes(self) -> int:
        """Bytes of the lines of all its sessions."""
        return sum(session.decoded_bytes for session in self.sessions)

    @cached_property
    def parsed_bytes(self) -> int:
        """The most bytes of payloads that comparing it may parse at a time."""
        return parsed_at_once(self.files)

    @property
    def is_big(self) -> bool:
        """Whether it wants memory, and no process beside it."""
        return self.decoded_bytes > MOST_TOGETHER or self.parsed_bytes > HEAVY


def fill_database(database: Path, state: State, workers: int, memory: str | None = None) -> list[Check]:
    """Check each session without a row by the proof made when its log was read; the rows made, in order.

    The database is that of the state, and nobody reads it yet.
    """
    with written(database, memory, workers) as db:
        shares = shares_of(sessions_of(db, are_unchecked=True), state, workers)
        if _are_few(shares):
            return _fill(db, shares)
    checks = check_shared(database, shares, database.parent, workers, memory)
    with written(database, memory, workers) as db:
        store(db, checks)
    return checks


def fill_small(db: duckdb.DuckDBPyConnection, state: State, workers: int) -> bool:
    """As `fill_database`, for the database in use, where it is too small to be shared out; returns whether it is."""
    shares = shares_of(sessions_of(db, are_unchecked=True), state, workers)
    if not _are_few(shares):
        return False
    _fill(db, shares)
    return True


def _are_few(shares: Sequence[Share]) -> bool:
    return len(shares) <= 1 and not any(share.is_big for share in shares)


def _fill(db: duckdb.DuckDBPyConnection, shares: Sequence[Share]) -> list[Check]:
    checks = [check for share in shares for check in check_sessions(db, share.sessions, share.files)]
    store(db, checks)
    return checks


def check_shared(
    database: Path,
    shares: Sequence[Share],
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
    job = functools.partial(_check, database=database, spill=spill, is_thorough=is_thorough)
    small = [share for share in shares if not share.is_big]
    processes = 1 if memory else min(workers, len(small))
    limits = (memory, workers) if processes <= 1 else (MEMORY_EACH, 1)
    checks = [check for some in engine.run(functools.partial(job, limits=limits), small, processes) for check in some]
    for share in shares:
        if share.is_big:
            checks += job(share, limits=(memory or memory_for(share.parsed_bytes, MEMORY_MB), workers))
    return sorted(checks, key=lambda check: check.session_id)


def _check(share: Share, database: Path, spill: Path, limits: tuple[str | None, int], is_thorough: bool) -> list[Check]:
    with reading(database, spill / f"spill-{os.getpid()}", *limits) as db:
        return check_sessions(db, share.sessions, share.files, is_thorough=is_thorough)


def shares_of(sessions: Sequence[Session], state: State, workers: int) -> list[Share]:
    """The sessions in groups of about the same size: as many for each worker."""
    parts = parts_of(state, [session.log_id for session in sessions])
    ordered = sorted(sessions, key=lambda session: parts[session.log_id])
    return [
        Share(tuple(group), files_of(state, [session.log_id for session in group]).tables["events"])
        for group in _groups(ordered, parts, workers)
    ]


def _groups(sessions: Sequence[Session], parts: Mapping[str, tuple[str, ...]], workers: int) -> Iterator[list[Session]]:
    """The sessions in their order. If possible those of a part stay together, so that it is read once."""
    total = sum(session.decoded_bytes for session in sessions)
    rounds = ceil(total / MOST_BYTES / workers)
    size = total / (rounds * workers) if total > LEAST_BYTES else total + 1
    group: list[Session] = []
    held = 0
    for session in sessions:
        is_other_part = group and parts[group[-1].log_id] != parts[session.log_id]
        if held >= size * 1.5 or (is_other_part and (held >= size or session.decoded_bytes > MOST_BYTES)):
            yield group
            group, held = [], 0
        group.append(session)
        held += session.decoded_bytes
    if group:
        yield group
