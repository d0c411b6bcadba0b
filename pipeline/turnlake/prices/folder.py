"""Where the built-in price files are."""

from __future__ import annotations

from pathlib import Path

from turnlake.errors import TurnlakeError

PACKAGE = Path(__file__).resolve().parents[1]
CARDS = "deepseek.csv"


def prices_folder(package: Path = PACKAGE) -> Path:
    """The folder with the built-in cards and calendars: that of the checkout first, else the one in the wheel.

    Raises TurnlakeError where there is neither.
    """
    for folder in (package.parents[1] / "data" / "prices", package / "prices-data"):
        if (folder / CARDS).is_file():
            return folder
    raise TurnlakeError(f"there are no price cards beside {package}: install turnlake again")
