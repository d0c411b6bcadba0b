"""Questions with their SQL and its answer on a page: each ```sql block is followed by what it prints."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from turnlake.console import print_table

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

RECIPE = re.compile(r"(```sql\n(.+?)\n```\n)(\n```text\n.*?\n```\n)?", re.DOTALL)


def answered(page: str, database: Path) -> str:
    """The page with each answer replaced by what its query gives now. Raises duckdb.Error."""
    import duckdb

    # Opened as any DuckDB shell would, so no recipe leans on what this package adds.
    with duckdb.connect(str(database), read_only=True) as db:
        return RECIPE.sub(lambda found: f"{found[1]}\n```text\n{answer(db, found[2])}```\n", page)


def answer(db: duckdb.DuckDBPyConnection, query: str) -> str:
    """What the query gives, laid out as `turnlake sql` does."""
    result = db.sql(query)
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_table(result.columns, result.fetchall())
    return printed.getvalue()
