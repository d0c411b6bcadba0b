"""Price files and calendars: CSV -> cards and holidays, or what is wrong with which line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from turnlake.errors import UsageError
from turnlake.prices.card import COLUMNS, REQUIRED, Card, PriceSource, read_card

HOLIDAY_COLUMNS = ("date", "name", "source", "checked_on")


@dataclass(frozen=True)
class Holiday:
    """A day without peak hours in a calendar, by that calendar's own date."""

    calendar: str
    day: date
    name: str
    source: str
    checked_on: date


def read_cards(path: Path, data: bytes, price_source: PriceSource) -> tuple[Card, ...]:
    """The cards of a file's content, in its order. Raises UsageError with file and line where it makes no sense.

    Two cards that would apply to one call with equal right are refused, and so are two with one id.
    """
    cards = []
    for line, row in _rows(path, data, COLUMNS, REQUIRED):
        with _telling(path, line):
            cards.append(read_card(row, price_source, line))
    _refuse_twice(path, cards, "hold for the same model from the same instant", lambda card: card.rank)
    _refuse_twice(path, cards, "have the same id", lambda card: card.id)
    return tuple(cards)


def read_holidays(path: Path, data: bytes) -> tuple[Holiday, ...]:
    """The days of a calendar file, `calendar-NAME.csv`. Raises UsageError with file and line."""
    calendar = path.stem.removeprefix("calendar-")
    holidays = []
    for line, row in _rows(path, data, HOLIDAY_COLUMNS, HOLIDAY_COLUMNS):
        with _telling(path, line):
            holidays.append(_holiday(calendar, row))
    return tuple(holidays)


def _holiday(calendar: str, row: dict[str, str]) -> Holiday:
    day, checked_on = date.fromisoformat(row["date"]), date.fromisoformat(row["checked_on"])
    return Holiday(calendar, day, row["name"], row["source"], checked_on)


def _rows(
    path: Path, data: bytes, known: tuple[str, ...], required: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells of each row. Raises UsageError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text: {error}") from None
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = reader.fieldnames or ()
        _check_header(path, names, known, required)
        for row in reader:
            # Cells beyond the header stand under None, cells a short row lacks are None.
            if None in row or None in row.values():
                raise UsageError(f"{path}, line {reader.line_num}: the row has not as many cells as the header")
            yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: {error}") from None


def _check_header(path: Path, names: object, known: tuple[str, ...], required: tuple[str, ...]) -> None:
    columns = list(names) if isinstance(names, list | tuple) else []
    wrong = [name for name in columns if name not in known or columns.count(name) > 1]
    if wrong:
        raise UsageError(f"{path}, line 1: column {wrong[0]!r} is unknown or there twice; known: {', '.join(known)}")
    missing = [name for name in required if name not in columns]
    if missing:
        raise UsageError(f"{path}, line 1: there is no column {missing[0]!r}")


@contextmanager
def _telling(path: Path, line: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{path}, line {line}: {error}") from None


def _refuse_twice(path: Path, cards: Iterable[Card], what: str, key: Callable[[Card], object]) -> None:
    seen: dict[object, Card] = {}
    for card in cards:
        first = seen.setdefault(key(card), card)
        if first is not card:
            raise UsageError(f"{path}: lines {first.line} and {card.line} {what}: {card.id}")
