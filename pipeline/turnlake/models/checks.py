"""What the models promise, as queries that return a row only where a promise is broken."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import duckdb

from turnlake.errors import ModelError
from turnlake.models.text import identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from turnlake.models.lanes import Lanes
    from turnlake.models.model import Model

    # Makes a connection look models up where they are.
    Use = Callable[[duckdb.DuckDBPyConnection], None]

ROWS_SHOWN = 5


@dataclass(frozen=True)
class Check:
    """A promise: the file that makes it, its text, the query for the rows that break it.

    Where it is about the rows of `table` alone, either `condition` must be true of each, or no two share `keys`.
    """

    path: Path
    text: str
    query: str
    table: str | None = None
    condition: str = ""
    keys: str = ""


def promises(models: Iterable[Model]) -> Iterator[Check]:
    """Every promise that the files of the models make."""
    for model in models:
        if model.key_of is None:
            yield _one_row_per_key(model)
            yield from _known_keys(model)
        for check in model.checks:
            yield Check(model.path, check, f"from {model.name} where ({check}) is not true", model.name, check)


def sql_tests(root: Path) -> Iterator[Check]:
    """The `*.test.sql` files below `root`."""
    for path in sorted(root.rglob("*.test.sql")):
        yield Check(path, path.stem, path.read_text(encoding="utf-8").strip().removesuffix(";"))


def _one_row_per_key(model: Model) -> Check:
    keys = ", ".join(identifier(key.column) for key in model.grain)
    doubles = f"select {keys}, count(*) as row_count from {model.name} group by all having count(*) > 1"
    return Check(model.path, f"one row per {keys}", doubles, model.name, keys=keys)


def _known_keys(model: Model) -> Iterator[Check]:
    needed = [identifier(key.column) for key in model.grain if not key.is_nullable]
    if needed:
        keys = ", ".join(identifier(key.column) for key in model.grain)
        known = " and ".join(f"{name} is not null" for name in needed)
        # The keys alone: a view need not make up its other columns for this.
        broken = f"select {keys} from {model.name} where not ({known})"
        yield Check(model.path, f"{', '.join(needed)} known", broken, model.name, known)


def run_checks(checks: Iterable[Check], lanes: Lanes, use: Use) -> int:
    """Runs the checks, after `use` made a connection look models up where they are, and returns how many there were.

    Raises ModelError with the text of the first that fails.
    """
    groups = list(_groups(checks))
    for running in [lanes.start(partial(_run_group, checks=group, query=query, use=use)) for group, query in groups]:
        running.result()
    return sum(len(group) for group, _ in groups)


def _run_group(db: duckdb.DuckDBPyConnection, checks: Sequence[Check], query: str, use: Use) -> None:
    use(db)
    if not _holds(query, db):
        for check in checks:
            _run(check, db)


def run_checks_of_few(checks: Iterable[Check], lanes: Lanes, use: Use) -> int:
    """As `run_checks`, for models of few rows: all in one query first, which with many rows would take much memory.

    On few rows nearly all that a query costs is to plan it, and one big query is planned in half the time.
    """
    together = list(checks)
    query = " union all ".join(f"({query})" for _, query in _groups(together))
    if together and not lanes.start(partial(_all_hold, query=query, use=use)).result():
        run_checks(together, lanes, use)
    return len(together)


def _all_hold(db: duckdb.DuckDBPyConnection, query: str, use: Use) -> bool:
    use(db)
    return _holds(query, db)


def _groups(checks: Iterable[Check]) -> Iterator[tuple[Sequence[Check], str]]:
    """The checks, those of the rows of one table together: what each query costs by itself is most of it.

    With each group a query that has a row where one of them is broken.
    """
    for table, group in groupby(checks, key=lambda check: check.table):
        together = list(group)
        if table is None:
            yield from (([check], f"select 1 from ({check.query}) limit 1") for check in together)
        else:
            yield together, _query_of_all(table, together)


def _query_of_all(table: str, checks: Sequence[Check]) -> str:
    """A query that has a row where one of these checks of the rows of a table is broken; it reads the table once."""
    conditions = " and ".join(f"({check.condition})" for check in checks if check.condition)
    keys = next((check.keys for check in checks if check.keys), None)
    if keys is None:
        return f"select 1 from {table} where ({conditions}) is not true limit 1"
    broken = f" or not bool_and(({conditions}) is true)" if conditions else ""
    return f"select 1 from {table} group by {keys} having count(*) > 1{broken} limit 1"


def _holds(query: str, db: duckdb.DuckDBPyConnection) -> bool:
    """Whether the query has no row; False also where it makes no sense, which each check tells better by itself."""
    try:
        return not db.execute(query).fetchall()
    except duckdb.Error:
        return False


def _run(check: Check, db: duckdb.DuckDBPyConnection) -> None:
    try:
        found = db.execute(f"select * from ({check.query}) limit {ROWS_SHOWN}")
    except duckdb.Error as error:
        raise ModelError(f"{check.path}: the check {check.text!r} can't be run: {error}") from error
    rows = found.fetchall()
    if rows:
        names = [column[0] for column in found.description or ()]
        shown = "\n".join("  " + _row(names, row) for row in rows)
        raise ModelError(f"{check.path}: check failed: {check.text}\n{shown}")


def _row(names: list[str], row: tuple[object, ...]) -> str:
    return ", ".join(f"{name} = {value!r:.60}" for name, value in zip(names, row, strict=True))
