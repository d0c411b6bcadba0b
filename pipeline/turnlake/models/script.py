"""The whole build as one SQL script, for a plain `duckdb` shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from turnlake.models.build import comments, creation, final_form, macros, schemas
from turnlake.models.folder import sql_folder
from turnlake.models.model import read_models
from turnlake.models.raw import raw_views

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlake.parquet.rawfiles import RawFiles


def build_script(state: RawFiles, root: Path | None = None) -> Iterator[str]:
    """The statements that rebuild raw views, macros and models, each ended by `;` and a newline."""
    root = root or sql_folder()
    with duckdb.connect() as db:
        models = read_models(root, db)
    statements = [*schemas(), *macros(root), *raw_views(state)]
    for model in models:
        statements += [creation(model, final_form(model)), *comments(model)]
    for statement in statements:
        yield f"{statement};\n"
