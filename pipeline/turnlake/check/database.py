"""The checks of a database: which sessions it holds, what comes of comparing them, the rows of its table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

import duckdb
import pyarrow as pa

from turnlake.check.outcome import Check, Session, compared, not_checked
from turnlake.check.scans import scanning
from turnlake.check.tables import read_tables
from turnlake.messages.outline import MOST_STEPS
from turnlake.messages.proof import Proof, load_proof
from turnlake.models.text import quoted

NO_PROOF = (
    f"no proof was made: the log has more than {MOST_STEPS:,} records, or was gone when its rows were made anew "
    "for a newer parser"
)
# What comparing may use before it spills to disk.
MEMORY_MB = 500
_NAME = "checked"
_TABLE = "marts.projection_checks"
_SESSIONS = """
with breaches as (
    select
        f.log_id,
        count(*) as breach_count,
        count_if(
            f.severity = 'error'
            and s.verdict <> 'refused'
            and (f.seq is null or (f.branch = 0 and f.seq < s.accepted_event_count))
        ) as error_count
    from staging.findings as f
    inner join staging.sessions as s using (log_id)
    where starts_with(f.code, 'INV-')
    group by f.log_id
)

select
    s.session_id,
    s.log_id,
    m.inexact_reason,
    l.proof,
    coalesce(b.breach_count, 0),
    coalesce(b.error_count, 0),
    coalesce(s.decoded_bytes, 0)
from staging.sessions as s
inner join marts.sessions as m using (session_id)
inner join raw.logs as l using (log_id)
left join breaches as b using (log_id)
"""
_WITHOUT_A_CHECK = f"anti join {_TABLE} as c using (session_id)"


@contextmanager
def written(
    database: Path, memory: str | None = None, threads: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that uses a database nobody reads yet; all is in it when the block ends well.

    `memory` is a size as DuckDB takes it (`500MB`).
    """
    with _connected(database.parent / "spill", memory, threads) as db:
        db.execute(f"attach {quoted(str(database))} as {_NAME} (recovery_mode no_wal_writes)")
        db.execute(f"use {_NAME}")
        yield db
        db.execute(f"checkpoint {_NAME}")


@contextmanager
def reading(
    database: Path, spill: Path, memory: str | None = None, threads: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that uses a database that others may read as well; what does not fit into memory goes to `spill`."""
    with _connected(spill, memory, threads) as db:
        db.execute(f"attach {quoted(str(database))} as {_NAME} (read_only)")
        db.execute(f"use {_NAME}")
        yield db


def _connected(spill: Path, memory: str | None, threads: int | None) -> duckdb.DuckDBPyConnection:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": str(spill),
        "memory_limit": memory or f"{MEMORY_MB}MB",
    }
    db = duckdb.connect(config=settings | ({"threads": threads} if threads else {}))
    db.execute("set TimeZone = 'UTC'")
    return db


def sessions_of(
    db: duckdb.DuckDBPyConnection, wanted: Collection[str] | None = None, *, are_unchecked: bool = False
) -> list[Session]:
    """The sessions of the database in use, in the order in which their logs are stored.

    All, or only the wanted ones, or those without a row in `marts.projection_checks`.
    """
    query = f"{_SESSIONS} {_WITHOUT_A_CHECK if are_unchecked else ''}"
    chosen: list[object] = []
    if wanted is not None:
        query, chosen = f"{query} where s.session_id in (select unnest($1))", [sorted(wanted)]
    return [Session(*row) for row in db.execute(f"{query} order by s.source, s.path", chosen).fetchall()]


def stored_checks(db: duckdb.DuckDBPyConnection) -> list[Check]:
    """The rows of `marts.projection_checks`, in order."""
    return [Check(*row) for row in db.execute(f"from {_TABLE} order by session_id").fetchall()]


def check_sessions(
    db: duckdb.DuckDBPyConnection, sessions: Sequence[Session], files: Sequence[Path], *, is_thorough: bool = False
) -> list[Check]:
    """The check of each session by its proof, in order of their ids. `files` hold the events of all of them."""
    checks = {one.session_id: not_checked(one, NO_PROOF) for one in sessions}
    proved = {one.session_id: (one, load_proof(one.proof)) for one in sessions if one.proof is not None}
    checks |= _compared(db, proved, files, is_thorough, is_parsed=False)
    # Perhaps the same JSON, printed otherwise.
    differing = {name: one for name, one in proved.items() if checks[name].are_messages_equal is False}
    checks |= _compared(db, differing, files, is_thorough, is_parsed=True)
    return [check for _, check in sorted(checks.items())]


def _compared(
    db: duckdb.DuckDBPyConnection,
    proved: Mapping[str, tuple[Session, Proof]],
    files: Sequence[Path],
    is_thorough: bool,
    is_parsed: bool,
) -> dict[str, Check]:
    if not proved:
        return {}
    with scanning(db, [session for session, _ in proved.values()], files) as rows:
        told = read_tables(rows, is_thorough=is_thorough, is_parsed=is_parsed)
    checks = {}
    for name, (session, proof) in proved.items():
        prefixes = [place.before_seq for place in proof.checkpoints if place.before_seq is not None]
        checks[name] = compared(session, proof, told[name].proof(prefixes))
    return checks


def store(db: duckdb.DuckDBPyConnection, checks: Sequence[Check]) -> None:
    """Put rows into `marts.projection_checks` of the database in use, in place of those of the same sessions."""
    if not checks:
        return
    names = [one.name for one in fields(Check)]
    db.register("checks_now", pa.table({name: list(map(attrgetter(name), checks)) for name in names}))
    db.begin()
    db.execute(f"delete from {_TABLE} where session_id in (select session_id from checks_now)")
    db.execute(f"insert into {_TABLE} by name from checks_now")
    db.commit()
