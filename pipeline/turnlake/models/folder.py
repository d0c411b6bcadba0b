"""Where the SQL files are."""

from __future__ import annotations

from pathlib import Path

from turnlake.errors import ModelError

PACKAGE = Path(__file__).resolve().parents[1]


def sql_folder(package: Path = PACKAGE) -> Path:
    """The folder `sql` that belongs to the package.

    That of the checkout comes first: an editable install leaves a copy in the package's place that goes stale.
    Raises ModelError where there is neither.
    """
    for folder in (package.parents[1] / "sql", package / "sql"):
        if (folder / "marts").is_dir():
            return folder
    raise ModelError(f"there are no SQL models beside {package}: install turnlake again")
