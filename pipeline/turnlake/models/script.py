"""The statements that make the database of a state; all of them are a SQL script for a plain `duckdb` shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from turnlake.models.comments import COLUMNS_DOC, Described, catalog_comments, fill_columns_doc
from turnlake.models.folder import sql_folder
from turnlake.models.model import LAYERS, read_models
from turnlake.models.prices import price_tables, price_views
from turnlake.models.raw import raw_tables, raw_views, stored_files
from turnlake.prices.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from turnlake.lake.files import RawFiles
    from turnlake.models.model import Model
    from turnlake.prices.prices import Prices


def build_script(state: RawFiles, prices: Prices | None = None, root: Path | None = None) -> Iterator[str]:
    """The statements that rebuild raw views, macros and models, each ended by `;` and a newline."""
    root = root or sql_folder()
    with duckdb.connect() as db:
        models = read_models(root, db)
    statements = [
        *schemas(),
        *(statements for _, statements in macros(root)),
        *stored_files(state),
        *raw_views(),
        *price_views(prices or load_prices()),
        *(creation(model, final_form(model)) for model in models),
        *(fill_columns_doc(described(models)) for model in models if model.name == COLUMNS_DOC),
        *catalog_comments(described(models)),
    ]
    for statement in statements:
        yield f"{statement};\n"


def schemas(database: str | None = None) -> Iterator[str]:
    """The statements that make the schemas, in the database in use unless another is named."""
    for name in ("raw", *LAYERS):
        yield f"create schema if not exists {f'{database}.' if database else ''}{name}"


def macros(root: Path) -> Iterator[tuple[Path, str]]:
    """The macro files in order of their names, each with its statements; no `;` ends the last of them."""
    for path in sorted((root / "macros").glob("*.sql")):
        yield path, path.read_text(encoding="utf-8").strip().removesuffix(";")


def creation(model: Model, stored_as: str, database: str | None = None) -> str:
    """The statement that makes the model, in the database in use unless another is named."""
    place = f"{database}.{model.name}" if database else model.name
    return f"create or replace {stored_as} {place} as\n{model.query}"


def final_form(model: Model) -> str:
    """What the model is in the finished database: table or view."""
    return model.stored_as.removeprefix("cached ")


def described(models: Iterable[Model]) -> list[Described]:
    """All tables and views of the database with their comments: those of schema raw, and the models."""
    made = (Described(model.name, final_form(model), model.about, model.columns) for model in models)
    return [*raw_tables(), *price_tables(), *made]
