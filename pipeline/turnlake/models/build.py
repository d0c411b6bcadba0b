"""A state of the lake -> a DuckDB database with raw views, models and their comments."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from turnlake.errors import ModelError
from turnlake.models.checks import promises, run_checks, sql_tests
from turnlake.models.folder import sql_folder
from turnlake.models.lanes import lane_count, make_in_order, side_by_side
from turnlake.models.model import LAYERS, Model, read_models
from turnlake.models.prices import price_views
from turnlake.models.raw import raw_comments, raw_views, stored_files
from turnlake.models.text import identifier, quoted
from turnlake.prices.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from turnlake.lake.files import RawFiles
    from turnlake.prices.prices import Prices

# The name the new database has while it is built. Nothing in the finished file holds it.
TARGET = "lake"
# What models may use before they spill to disk: with Python around them they stay below 700 MB, however much there is.
DEFAULT_MEMORY = "400MB"


@dataclass(frozen=True)
class BuildResult:
    """What a build made: the rows of each stored table by its name, and the number of checks that held.

    `renewed` are the sessions whose rows were made anew, those that are gone among them; None where all were.
    """

    rows: Mapping[str, int]
    check_count: int
    renewed: frozenset[str] | None = None


@dataclass(frozen=True)
class Limits:
    """What DuckDB may use: memory as it takes it (`500MB`), threads; the defaults where None."""

    memory: str | None = None
    threads: int | None = None


def build_database(
    state: RawFiles,
    target: Path,
    *,
    prices: Prices | None = None,
    memory: str | None = None,
    threads: int | None = None,
    root: Path | None = None,
) -> BuildResult:
    """Makes the database file `target` from the Parquet files of a state.

    `prices` are the built-in ones unless given, `memory` is a size as DuckDB takes it (`500MB`), `root` the folder of
    the SQL files. Raises ModelError where a model can't be built or a check fails; the file is then worthless.
    """
    root = root or sql_folder()
    target.unlink(missing_ok=True)
    with connected(target, Limits(memory, threads)) as db, in_use(target, db):
        models = read_models(root, db)
        run(db, (*schemas(), *macros(root), *stored_files(state), *raw_views()))
        run(db, price_views(prices or load_prices()))
        stored_bytes = sum(path.stat().st_size for paths in state.tables.values() for path in paths)
        with side_by_side(db, lane_count(db, stored_bytes)) as lanes:
            make_in_order(lanes, models, _build_model)
            use_whole(db)
            _check_columns(db, models)
            finished = lanes.start(lambda lane: _finish(lane, models))
            check_count = run_checks((*promises(models), *sql_tests(root)), lanes, use_whole)
            finished.result()
        return BuildResult(row_counts(db, models), check_count)


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


def schemas(database: str | None = None) -> Iterator[str]:
    """The statements that make the schemas, in the database in use unless another is named."""
    for name in ("raw", *LAYERS):
        yield f"create schema if not exists {f'{database}.' if database else ''}{name}"


def macros(root: Path) -> Iterator[str]:
    """The statements of the macro files, in order of their names."""
    for path in sorted((root / "macros").glob("*.sql")):
        try:
            statements = duckdb.extract_statements(path.read_text(encoding="utf-8"))
        except duckdb.Error as error:
            raise ModelError(f"{path}: {error}") from error
        for statement in statements:
            yield statement.query.strip().removesuffix(";")


def creation(model: Model, stored_as: str, database: str | None = None) -> str:
    """The statement that makes the model, in the database in use unless another is named."""
    place = f"{database}.{model.name}" if database else model.name
    return f"create or replace {stored_as} {place} as\n{model.query}"


def comments(model: Model) -> Iterator[str]:
    """The statements that copy the comments of a model's file into the catalog."""
    yield f"comment on {final_form(model)} {model.name} is {quoted(model.about)}"
    for column, about in model.columns.items():
        yield f"comment on column {model.name}.{identifier(column)} is {quoted(about)}"


def final_form(model: Model) -> str:
    """What the model is in the finished database: table or view."""
    return model.stored_as.removeprefix("cached ")


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


def make(db: duckdb.DuckDBPyConnection, model: Model, *statements: str) -> None:
    """Runs statements that make a model. Raises ModelError that names its file."""
    try:
        for statement in statements:
            db.execute(statement)
    except duckdb.Error as error:
        raise ModelError(f"{model.path}: {error}") from error


def _build_model(db: duckdb.DuckDBPyConnection, model: Model) -> None:
    """Makes one model in the file; a cached view as a table in memory."""
    use_whole(db)
    is_cached = model.stored_as == "cached view"
    make(db, model, creation(model, "table", "memory") if is_cached else creation(model, model.stored_as, TARGET))


def _finish(db: duckdb.DuckDBPyConnection, models: Iterable[Model]) -> None:
    """Puts views in the file for what was held in memory, and copies all comments into it."""
    db.execute(f"use {TARGET}")
    views = (creation(model, "view") for model in models if model.stored_as == "cached view")
    run(db, (*views, *raw_comments(), *(comment for model in models for comment in comments(model))))


def _check_columns(db: duckdb.DuckDBPyConnection, models: Iterable[Model]) -> None:
    """Refuses a model whose comments are not those of the columns it turned out to have."""
    found = db.execute("select schema_name || '.' || table_name, column_name from duckdb_columns() where not internal")
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
    if not names:
        return {}
    [counts] = db.execute(f"select {', '.join(f'(select count(*) from {name})' for name in names)}").fetchall()
    return dict(zip(names, map(int, counts), strict=True))
