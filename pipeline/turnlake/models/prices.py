"""The views of schema raw over price cards, holidays and settings: their rows stand in the views themselves.

So the database holds what it was priced by, whatever becomes of the files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from turnlake.models.comments import Described
from turnlake.models.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from turnlake.prices.prices import Prices

Columns = dict[str, tuple[str, str]]

# Name -> type and what it holds.
PRICES: Columns = {
    "price_id": ("varchar", "Id of the card, unique in its file."),
    "price_source": ("varchar", "builtin, or override: from the user's own file."),
    "provider": ("varchar", "Route the card is for, as the logs name it."),
    "model": ("varchar", "Model it is for; with a `*` at its end all whose names start so."),
    "currency": ("varchar", "Currency of its rates."),
    "valid_from": ("timestamptz", "Instant from which it holds; NULL = ever since."),
    "valid_to": ("timestamptz", "Instant before which it holds; NULL = open."),
    "input_price": ("decimal(18, 9)", "A million uncached prompt tokens, outside peak hours."),
    "output_price": ("decimal(18, 9)", "A million generated tokens, outside peak hours."),
    "cache_read_price": ("decimal(18, 9)", "A million cached prompt tokens; NULL = as uncached ones."),
    "cache_write_price": ("decimal(18, 9)", "A million prompt tokens written to the cache; NULL = as uncached ones."),
    "peak_factor": ("decimal(18, 9)", "What rates are multiplied by in peak hours; NULL = there are none."),
    "windows": ("varchar", "Peak hours in UTC, end exclusive, such as `01:00-04:00 06:00-10:00`."),
    "calendar": (
        "varchar",
        "Days that have peak hours: NULL = all, weekdays = Monday to Friday in UTC, cn = in Beijing.",
    ),
    "source": ("varchar", "Where the card is stated."),
    "checked_on": ("date", "Day it was checked."),
}
HOLIDAYS: Columns = {
    "calendar": ("varchar", "Calendar the day is in."),
    "date": ("date", "Day without peak hours, by the date of that calendar."),
    "name": ("varchar", "Name of the holiday."),
    "source": ("varchar", "Where it is announced."),
    "checked_on": ("date", "Day it was checked."),
}
SETTINGS: Columns = {"currency": ("varchar", "Currency of all costs; cards in others do not apply.")}


def price_views(prices: Prices) -> Iterator[str]:
    """The statements that make raw.prices, raw.holidays and raw.settings."""
    cards = (
        (
            *(card.id, card.price_source, card.provider, card.model, card.currency, card.valid_from, card.valid_to),
            *(card.input, card.output, card.cache_read, card.cache_write, card.peak_factor),
            *(" ".join(card.windows) or None, card.calendar, card.source, card.checked_on),
        )
        for card in prices.cards
    )
    days = (
        (holiday.calendar, holiday.day, holiday.name, holiday.source, holiday.checked_on) for holiday in prices.holidays
    )
    yield _view("prices", PRICES, cards)
    yield _view("holidays", HOLIDAYS, days)
    yield _view("settings", SETTINGS, [(prices.currency,)])


def price_tables() -> Iterator[Described]:
    """These views with their comments."""
    tables = {
        "prices": ("One row per price card.", PRICES),
        "holidays": ("One row per public holiday that has no peak hours.", HOLIDAYS),
        "settings": ("One row: what the database was built with.", SETTINGS),
    }
    for name, (about, columns) in tables.items():
        yield Described(f"raw.{name}", "view", about, {column: what for column, (_, what) in columns.items()})


def _view(name: str, columns: Columns, rows: Iterable[tuple[object, ...]]) -> str:
    # One constant: thousands of rows, each a list of constants, would take longer to parse than all models together.
    cells = [dict(zip(columns, map(_cell, row), strict=True)) for row in rows]
    types = [{column: type_ for column, (type_, _) in columns.items()}]
    query = f"unnest(from_json_strict({quoted(json.dumps(cells))}, {quoted(json.dumps(types))}), recursive := true)"
    return f"create or replace view raw.{name} as select {query}"


def _cell(value: object) -> str | None:
    return None if value is None else str(value)
