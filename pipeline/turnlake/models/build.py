"""A state of the lake -> a DuckDB database with raw views, models and their comments."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from turnlake.errors import ModelError
from turnlake.models.checks import promises, run_checks
from turnlake.models.folder import sql_folder
from turnlake.models.model import LAYERS, Model, read_models
from turnlake.models.prices import price_views
from turnlake.models.raw import raw_views
from turnlake.models.text import identifier, quoted
from turnlake.prices.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from turnlake.parquet.rawfiles import RawFiles
    from turnlake.prices.prices import Prices

# The name the new database has while it is built. Nothing in the finished file holds it.
TARGET = "lake"
# What models may use before they spill to disk: with Python around them they stay below 700 MB, however much there is.
DEFAULT_MEMORY = "500MB"


@dataclass(frozen=True)
class BuildResult:
    """What a build made: the rows of each stored table by its name, and the number of checks that held."""

    rows: Mapping[str, int]
    check_count: int


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
    with closing(duckdb.connect(config=_settings(target.parent, memory, threads))) as db:
        db.execute("set TimeZone = 'UTC'")
        models = read_models(root, db)
        db.execute(f"attach {quoted(str(target))} as {TARGET} (recovery_mode no_wal_writes)")
        db.execute(f"use {TARGET}")
        db.execute("create schema memory.staging")
        _run(db, (*schemas(), *macros(root), *raw_views(state), *price_views(prices or load_prices())))
        # What is created goes to the file, the first of the path; staging is looked up in memory before the file.
        db.execute(f"set search_path = '{TARGET}.main,memory.staging,{TARGET}.staging'")
        for model in models:
            _build_model(db, model)
        check_count = run_checks(promises(models, root), db)
        db.execute(f"use {TARGET}")
        _run(db, finish(models))
        rows = {model.name: _row_count(db, model.name) for model in models if model.stored_as == "table"}
        db.execute(f"checkpoint {TARGET}")
    return BuildResult(rows, check_count)


def schemas() -> Iterator[str]:
    """The statements that make the schemas."""
    for name in ("raw", *LAYERS):
        yield f"create schema if not exists {name}"


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


def finish(models: Iterable[Model]) -> Iterator[str]:
    """The statements that put views in place of what was held in memory and copy all comments."""
    for model in models:
        if model.stored_as == "cached view":
            yield creation(model, "view")
        yield from comments(model)


def final_form(model: Model) -> str:
    """What the model is in the finished database: table or view."""
    return model.stored_as.removeprefix("cached ")


def _settings(folder: Path, memory: str | None, threads: int | None) -> dict[str, str | bool | int | float | list[str]]:
    settings: dict[str, str | bool | int | float | list[str]] = {"temp_directory": str(folder / "spill")}
    settings["memory_limit"] = memory or DEFAULT_MEMORY
    if threads:
        settings["threads"] = threads
    return settings


def _run(db: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    # One transaction: hundreds of comments, each written on its own, would cost more than the models.
    db.begin()
    for statement in statements:
        try:
            db.execute(statement)
        except duckdb.Error as error:
            raise ModelError(f"{statement.splitlines()[0][:200]}: {error}") from error
    db.commit()


def _build_model(db: duckdb.DuckDBPyConnection, model: Model) -> None:
    """Makes one model in the file; a cached view as a table in memory."""
    is_cached = model.stored_as == "cached view"
    statement = creation(model, "table", "memory") if is_cached else creation(model, model.stored_as, TARGET)
    try:
        db.execute(statement)
    except duckdb.Error as error:
        raise ModelError(f"{model.path}: {error}") from error
    columns = {row[0] for row in db.execute(f"describe {model.name}").fetchall()}
    for name in sorted(columns ^ model.columns.keys()):
        reason = "has no comment of its own" if name in columns else "has a comment but is not selected"
        raise ModelError(f"{model.path}: column {name} {reason}")


def _row_count(db: duckdb.DuckDBPyConnection, name: str) -> int:
    [(count,)] = db.execute(f"select count(*) from {name}").fetchall()
    return int(count)
