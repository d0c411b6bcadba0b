"""What the models promise, as queries that return a row only where a promise is broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from turnlake.errors import ModelError
from turnlake.models.text import identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from turnlake.models.model import Model

ROWS_SHOWN = 5


@dataclass(frozen=True)
class Check:
    """A promise: the file that makes it, its text, the query for the rows that break it."""

    path: Path
    text: str
    query: str


def promises(models: Iterable[Model], root: Path) -> Iterator[Check]:
    """Every promise of the models and of the `*.test.sql` files below `root`."""
    for model in models:
        if model.key_of is None:
            yield from _key_promises(model)
        for check in model.checks:
            yield Check(model.path, check, f"from {model.name} where ({check}) is not true")
    for path in sorted(root.rglob("*.test.sql")):
        yield Check(path, path.stem, path.read_text(encoding="utf-8").strip().removesuffix(";"))


def _key_promises(model: Model) -> Iterator[Check]:
    keys = ", ".join(identifier(key.column) for key in model.grain)
    doubles = f"select {keys}, count(*) as row_count from {model.name} group by all having count(*) > 1"
    yield Check(model.path, f"one row per {keys}", doubles)
    needed = [identifier(key.column) for key in model.grain if not key.is_nullable]
    if needed:
        unknown = " or ".join(f"{name} is null" for name in needed)
        # The keys alone: a view need not make up its other columns for this.
        yield Check(model.path, f"{', '.join(needed)} known", f"select {keys} from {model.name} where {unknown}")


def run_checks(checks: Iterable[Check], db: duckdb.DuckDBPyConnection) -> int:
    """Runs the checks and returns how many there were. Raises ModelError with the text of the first that fails."""
    count = 0
    for count, check in enumerate(checks, start=1):  # noqa: B007
        try:
            found = db.execute(f"select * from ({check.query}) limit {ROWS_SHOWN}")
        except duckdb.Error as error:
            raise ModelError(f"{check.path}: the check {check.text!r} can't be run: {error}") from error
        rows = found.fetchall()
        if rows:
            names = [column[0] for column in found.description or ()]
            shown = "\n".join("  " + _row(names, row) for row in rows)
            raise ModelError(f"{check.path}: check failed: {check.text}\n{shown}")
    return count


def _row(names: list[str], row: tuple[object, ...]) -> str:
    return ", ".join(f"{name} = {value!r:.60}" for name, value in zip(names, row, strict=True))
