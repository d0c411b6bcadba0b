"""SQL text: quoting of values and names, and what DuckDB says of it in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def quoted(text: str) -> str:
    """The text as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """The name as a SQL identifier, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def path_list(paths: Iterable[Path]) -> str:
    """Paths as a SQL list of strings."""
    return "[" + ", ".join(quoted(str(path)) for path in paths) + "]"


def reason(error: Exception) -> str:
    """What DuckDB says is wrong, in one line, without the place in the query that it draws."""
    return " ".join(str(error).partition("\n\nLINE")[0].split())
