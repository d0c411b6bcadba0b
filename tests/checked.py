"""Checking a database by itself, without the state that it was built from."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from turnlake.check.database import check_sessions, sessions_of, store
from turnlake.check.outcome import Check


def event_files(db: duckdb.DuckDBPyConnection) -> list[Path]:
    """The files of events that the database in use reads."""
    query = "select macro_definition from duckdb_functions() where function_name = 'stored_events'"
    [(definition,)] = db.execute(f"{query} and database_name = current_database()").fetchall()
    return [Path(path.replace("''", "'")) for path in re.findall(r"'((?:[^']|'')+\.parquet)'", definition)]


def fill(db: duckdb.DuckDBPyConnection) -> list[Check]:
    """Check each session that has no row yet by the proof made when its log was read; the rows made, in order."""
    checks = check_sessions(db, sessions_of(db, are_unchecked=True), event_files(db))
    store(db, checks)
    return checks
