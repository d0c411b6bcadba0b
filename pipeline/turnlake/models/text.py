"""SQL text: quoting of values and names."""

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
