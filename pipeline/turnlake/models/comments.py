"""What is said of tables and columns: all of it as rows of `marts.columns_doc`, and some of it in the catalog.

A comment in the catalog is a statement of its own, and a thousand of them cost as much as half the models of a small
lake: so only the tables that people browse have them, those of `marts` and `raw`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnlake.models.text import identifier, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Its model makes it without rows; `fill_columns_doc` gives it them.
COLUMNS_DOC = "marts.columns_doc"
# The schemas whose comments are in the catalog too.
BROWSED = ("raw", "marts")
# In the order in which data goes through them.
SCHEMAS = ("raw", "staging", "intermediate", "marts")


@dataclass(frozen=True)
class Described:
    """A table or view (`form`) named with its schema: what one row is, and the comment of each column in order."""

    name: str
    form: str
    about: str
    columns: Mapping[str, str]

    @property
    def schema(self) -> str:
        """The schema it is in."""
        return self.name.split(".")[0]


def catalog_comments(tables: Iterable[Described]) -> Iterator[str]:
    """The statements that copy the comments of the tables people browse into the catalog of the database in use."""
    for table in tables:
        if table.schema in BROWSED:
            yield f"comment on {table.form} {table.name} is {quoted(table.about)}"
            for column, about in table.columns.items():
                yield f"comment on column {table.name}.{identifier(column)} is {quoted(about)}"


def fill_columns_doc(tables: Iterable[Described], database: str | None = None) -> str:
    """The statement that writes the rows of `marts.columns_doc`, in the database in use unless another is named."""
    names = ("schema_name", "table_name", "column_name", "comment", "reference", "sort_key")
    rows: list[dict[str, str | int | None]] = []
    for table in sorted(tables, key=lambda table: (SCHEMAS.index(table.schema), table.name)):
        schema, _, name = table.name.partition(".")
        for column, about in ((None, table.about), *table.columns.items()):
            rows.append(dict(zip(names, (schema, name, column, about, None, len(rows) + 1), strict=True)))
    types = dict.fromkeys(names, "varchar") | {"sort_key": "bigint"}
    # One constant: a list of rows, each of constants, takes several times as long to parse.
    values = f"from_json_strict({quoted(json.dumps(rows))}, {quoted(json.dumps([types]))})"
    place = f"{database}.{COLUMNS_DOC}" if database else COLUMNS_DOC
    return f"insert into {place} by name select unnest({values}, recursive := true)"
