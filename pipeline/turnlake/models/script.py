"""The whole build as one SQL script, for a plain `duckdb` shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from turnlake.models.build import comments, creation, final_form, macros, schemas
from turnlake.models.folder import sql_folder
from turnlake.models.model import read_models
from turnlake.models.prices import price_views
from turnlake.models.raw import raw_comments, raw_views, stored_files
from turnlake.prices.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlake.lake.files import RawFiles
    from turnlake.prices.prices import Prices


def build_script(state: RawFiles, prices: Prices | None = None, root: Path | None = None) -> Iterator[str]:
    """The statements that rebuild raw views, macros and models, each ended by `;` and a newline."""
    root = root or sql_folder()
    with duckdb.connect() as db:
        models = read_models(root, db)
    statements = [
        *schemas(),
        *macros(root),
        *stored_files(state),
        *raw_views(),
        *raw_comments(),
        *price_views(prices or load_prices()),
    ]
    for model in models:
        statements += [creation(model, final_form(model)), *comments(model)]
    for statement in statements:
        yield f"{statement};\n"
