"""`turnlake.connect()`: a connection for people, which follows the builds and takes no statement that writes a file."""

from __future__ import annotations

import os
import re
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from turnlake import api
from turnlake.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duckdb

# What runs SQL, and what binds names without any.
QUERIES = frozenset({"execute", "executemany", "from_query", "query", "sql"})
LOOKUPS = frozenset({"table", "view"})
# DuckDB lets all of these write into a folder it may read. A prepared statement hides what it does until it runs.
REFUSED = frozenset({"ATTACH", "COPY", "DETACH", "EXECUTE", "EXPORT", "LOAD", "PREPARE"})
HIDDEN = re.compile(r"\b(attach|copy|execute|export|prepare)\b", re.IGNORECASE)


def connect(lake: str | os.PathLike[str] | None = None, *, follow: bool = True) -> duckdb.DuckDBPyConnection:
    """A connection that reads the lake and nothing else: schemas raw, staging, intermediate, marts.

    The lake is `$TURNLAKE_LAKE`, else the nearest `data/lake`, unless it is given. Each query sees the state published
    last, whole; those between `begin()` and `commit()` see one state, and without `follow` all do. Temporary tables
    and registered frames (`con.register("mine", frame)`) stay. Raises LakeError where there is no database to read;
    queries raise QueryError for a statement that could write a file.
    """
    folder = api.lake_folder(lake)
    seen = api.stamp(folder)
    return cast("duckdb.DuckDBPyConnection", Connection(api.connect(folder), Attached(folder, seen, follow)))


class Attached:
    """The database in use as `turnlake`, shared by a connection and its cursors."""

    def __init__(self, lake: Path, seen: tuple[int, ...], follow: bool) -> None:
        self._lake, self._seen, self._follow = lake, seen, follow
        self._lock = Lock()

    def renew(self, db: duckdb.DuckDBPyConnection) -> None:
        """Attaches the database published last, if it is another. Raises LakeError where the lake is gone."""
        if not self._follow:
            return
        with self._lock:
            newest = api.stamp(self._lake)
            if newest != self._seen:
                # A cursor of its own: results that are being fetched, and open transactions, keep the state they have.
                with db.cursor() as side:
                    side.execute("use memory")
                    side.execute("detach database if exists turnlake")
                    api.attach(side, self._lake)
                self._seen = newest


class Connection:
    """DuckDB's connection, but for what it does before it asks the database.

    DuckDB's own class can't be inherited from. All that is not named here is its own.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection, attached: Attached) -> None:
        self._db, self._attached = db, attached

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._db, name)
        return self._asking(found, name in QUERIES) if name in QUERIES | LOOKUPS else found

    def __dir__(self) -> list[str]:
        return dir(self._db)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def cursor(self) -> Connection:
        """A second connection to the same database, for another thread or a second result."""
        side = self._db.cursor()
        side.execute("use turnlake")
        return Connection(side, self._attached)

    duplicate = cursor

    def _asking(self, ask: Callable[..., Any], is_query: bool) -> Callable[..., Any]:
        def asked(subject: Any, *args: Any, **options: Any) -> Any:
            if is_query:
                refuse_writing(self._db, subject)
            self._attached.renew(self._db)
            answer = ask(subject, *args, **options)
            return self if answer is self._db else answer

        return asked


def refuse_writing(db: duckdb.DuckDBPyConnection, query: Any) -> None:
    """Raises QueryError where a statement of the query could write a file, duckdb.Error where it can't be parsed."""
    for statement in db.extract_statements(query) if isinstance(query, str) else [query]:
        kind = statement.type.name
        if kind in REFUSED or (kind == "EXPLAIN" and HIDDEN.search(statement.query)):
            raise QueryError(f"a lake is read-only and has no {kind} statements; write a file with Polars: .pl()")
