"""All that prices calls: cards built in and the user's own, holidays, the currency of the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from turnlake.errors import UsageError
from turnlake.prices.card import Card
from turnlake.prices.files import Holiday, read_cards, read_holidays
from turnlake.prices.folder import CARDS, prices_folder

CURRENCY = "USD"
VARIABLE = "TURNLAKE_PRICES"
FILE = "prices.csv"


@dataclass(frozen=True)
class Prices:
    """Cards in the order of their files, the user's behind those built in; only those in `currency` apply.

    `inputs` names the content they were read from, by SHA-256.
    """

    currency: str
    cards: tuple[Card, ...]
    holidays: tuple[Holiday, ...]
    inputs: Mapping[str, str] = field(default_factory=dict)


def load_prices(override: Path | None = None, currency: str = CURRENCY) -> Prices:
    """The built-in cards and those of the override file. Raises UsageError where a file can't be used."""
    folder = prices_folder()
    builtin = {path: path.read_bytes() for path in (folder / CARDS, *sorted(folder.glob("calendar-*.csv")))}
    own = _content(override) if override else b""
    cards = read_cards(folder / CARDS, builtin[folder / CARDS], "builtin")
    if override:
        cards += read_cards(override, own, "override")
    holidays = tuple(day for path, data in builtin.items() if path.name != CARDS for day in read_holidays(path, data))
    inputs = {
        "builtin_prices": sha256(b"".join(builtin.values())).hexdigest(),
        "own_prices": sha256(own).hexdigest() if override else "",
        "currency": currency,
    }
    return Prices(currency, cards, holidays, inputs)


def override_file(lake: Path, named: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The user's price file: the one named, else that of $TURNLAKE_PRICES, else `prices.csv` of the lake if there.

    A file that is named need not exist here; reading it fails then.
    """
    if named is not None:
        return named
    if environ.get(VARIABLE):
        return Path(environ[VARIABLE])
    return lake / FILE if (lake / FILE).exists() else None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}. Name a price file by --prices.") from error
