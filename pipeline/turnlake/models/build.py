"""A state of the lake -> a DuckDB database with raw views, models and their comments."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb

from turnlake.errors import ModelError
from turnlake.models.checks import promises, run_checks, run_checks_of_few, sql_tests
from turnlake.models.comments import COLUMNS_DOC, catalog_comments, fill_columns_doc
from turnlake.models.folder import sql_folder
from turnlake.models.lanes import lane_count, make_in_order, side_by_side
from turnlake.models.model import Model, read_models
from turnlake.models.prices import price_views
from turnlake.models.raw import raw_views, stored_files
from turnlake.models.script import creation, described, macros, schemas
from turnlake.models.text import quoted
from turnlake.prices.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from turnlake.lake.files import RawFiles
    from turnlake.prices.prices import Prices

# The name the new database has while it is built. Nothing in the finished file holds it.
TARGET = "lake"
# What models may use before they spill to disk: with Python around them they stay below 700 MB, however much there is.
DEFAULT_MEMORY = "400MB"
# Bytes of files below which most of a build is to plan its queries: a second thread then costs more than it spares.
SMALL_BYTES = 20 << 20
# Bytes of files below which a query takes longer to optimize than a better plan of it would spare.
TINY_BYTES = 256 << 10


@dataclass(frozen=True)
class BuildResult:
    """What a build made: the rows of each stored table by its name, and the number of checks that held.

    `renewed` are the sessions whose rows were made anew, those that are gone among them; None where all were.
    `is_compared` says whether the sessions were compared with what their logs gave.
    """

    rows: Mapping[str, int]
    check_count: int
    renewed: frozenset[str] | None = None
    is_compared: bool = False


@dataclass(frozen=True)
class Limits:
    """What DuckDB may use: memory as it takes it (`500MB`), threads; the defaults where None."""

    memory: str | None = None
    threads: int | None = None

    def for_files_of(self, stored_bytes: int) -> Limits:
        """The same for files of so many bytes: one thread where they are few, unless a number is given."""
        return self if self.threads or stored_bytes >= SMALL_BYTES else replace(self, threads=1)


def build_database(
    state: RawFiles,
    target: Path,
    *,
    prices: Prices | None = None,
    memory: str | None = None,
    threads: int | None = None,
    root: Path | None = None,
    compare: Callable[[duckdb.DuckDBPyConnection], bool] | None = None,
) -> BuildResult:
    """Makes the database file `target` from the Parquet files of a state.

    `prices` are the built-in ones unless given, `memory` is a size as DuckDB takes it (`500MB`), `root` the folder of
    the SQL files. Where the files are small, `compare` gets the connection while the database is open in it, since to
    open it once more takes longer than to compare its sessions; it returns whether it did. Raises ModelError where a
    model can't be built or a check fails; the file is then worthless.
    """
    root = root or sql_folder()
    target.unlink(missing_ok=True)
    stored_bytes = sum(path.stat().st_size for paths in state.tables.values() for path in paths)
    with connected(target, Limits(memory, threads).for_files_of(stored_bytes)) as db, in_use(target, db):
        models = read_models(root, db)
        run(db, schemas())
        for path, statements in macros(root):
            make(db, path, statements)
        run(db, (*stored_files(state), *raw_views(), *price_views(prices or load_prices())))
        use_whole(db)
        use = _use_unoptimized if stored_bytes < TINY_BYTES else use_whole
        with side_by_side(db, lane_count(db, stored_bytes), use) as lanes:
            make_in_order(lanes, models, _build_model)
            _check_columns(db, models)
            if any(model.name == COLUMNS_DOC for model in models):
                db.execute(fill_columns_doc(described(models), TARGET))
            finished = lanes.start(lambda lane: _finish(lane, models))
            run_all = run_checks_of_few if stored_bytes < SMALL_BYTES else run_checks
            check_count = run_all((*promises(models), *sql_tests(root)), lanes, use_whole)
            finished.result()
        counts = row_counts(db, models)
        is_compared = compare is not None and stored_bytes < SMALL_BYTES and compare(_finished(db))
        return BuildResult(counts, check_count, is_compared=is_compared)


def connected(target: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    """A connection that may spill beside the file `target`, and keeps to the limits."""
    settings: dict[str, str | bool | int | float | list[str]] = {"temp_directory": str(target.parent / "spill")}
    settings["memory_limit"] = limits.memory or DEFAULT_MEMORY
    if limits.threads:
        settings["threads"] = limits.threads
    db = duckdb.connect(config=settings)
    db.execute("set TimeZone = 'UTC'")
    return db


@contextmanager
def in_use(target: Path, db: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """The file is in use as TARGET, made where it is not there; all is in it when the block ends well."""
    db.execute(f"attach {quoted(str(target))} as {TARGET} (recovery_mode no_wal_writes)")
    db.execute(f"use {TARGET}")
    db.execute("create schema memory.staging")
    yield
    db.execute(f"checkpoint {TARGET}")


def use_whole(db: duckdb.DuckDBPyConnection) -> None:
    """From here on names of models stand for all their rows; cached views are looked up in memory before the file."""
    # What is created goes to the first of the path.
    db.execute(f"set search_path = '{TARGET}.main,memory.staging,{TARGET}.staging'")


def run(db: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Runs statements that change the file alone."""
    # One transaction: hundreds of comments, each written on its own, would cost more than the models. And no optimizer,
    # for there is nothing to optimize.
    db.execute("pragma disable_optimizer")
    db.begin()
    for statement in statements:
        try:
            db.execute(statement)
        except duckdb.Error as error:
            raise ModelError(f"{statement.splitlines()[0][:200]}: {error}") from error
    db.commit()
    db.execute("pragma enable_optimizer")


def make(db: duckdb.DuckDBPyConnection, path: Path, *statements: str) -> None:
    """Runs statements that make what is in a file. Raises ModelError that names it."""
    try:
        for statement in statements:
            db.execute(statement)
    except duckdb.Error as error:
        raise ModelError(f"{path}: {error}") from error


def _use_unoptimized(db: duckdb.DuckDBPyConnection) -> None:
    use_whole(db)
    db.execute("pragma disable_optimizer")


def _build_model(db: duckdb.DuckDBPyConnection, model: Model) -> None:
    """Makes one model in the file; a cached view as a table in memory."""
    is_cached = model.stored_as == "cached view"
    make(db, model.path, creation(model, "table", "memory") if is_cached else creation(model, model.stored_as, TARGET))


def _finish(db: duckdb.DuckDBPyConnection, models: Iterable[Model]) -> None:
    """Puts views in the file for what was held in memory, and comments into its catalog."""
    db.execute(f"use {TARGET}")
    views = (creation(model, "view") for model in models if model.stored_as == "cached view")
    run(db, (*views, *catalog_comments(described(models))))


def _finished(db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection, in which names stand for what is in the file alone."""
    db.execute(f"use {TARGET}")
    db.execute("drop schema memory.staging cascade")
    return db


def _check_columns(db: duckdb.DuckDBPyConnection, models: Iterable[Model]) -> None:
    """Refuses a model whose comments are not those of the columns it turned out to have."""
    # Databases are named, or DuckDB makes up the columns of all its own tables first.
    names = "select schema_name || '.' || table_name, column_name from duckdb_columns()"
    found = db.execute(f"{names} where database_name in ('{TARGET}', 'memory')")
    columns: dict[str, set[str]] = {}
    for name, column in found.fetchall():
        columns.setdefault(name, set()).add(column)
    for model in models:
        for column in sorted(columns[model.name] ^ model.columns.keys()):
            is_told = column in model.columns
            reason = "has a comment but is not selected" if is_told else "has no comment of its own"
            raise ModelError(f"{model.path}: column {column} {reason}")


def row_counts(db: duckdb.DuckDBPyConnection, models: Iterable[Model]) -> dict[str, int]:
    """The number of rows of each stored table, by its name."""
    names = [model.name for model in models if model.stored_as == "table"]
    counts = " union all ".join(f"select {quoted(name)}, count(*) from {name}" for name in names)
    return dict(db.execute(counts).fetchall()) if names else {}
