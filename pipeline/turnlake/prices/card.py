"""One card: the rates of a model over a period, as one row of a price file states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal

PriceSource = Literal["builtin", "override"]

REQUIRED = ("id", "provider", "model", "currency", "valid_from", "input", "output")
# In the order of a file that is written new.
COLUMNS = (
    *("id", "provider", "model", "currency", "valid_from", "valid_to", "input", "output", "cache_read", "cache_write"),
    *("peak_factor", "windows", "calendar", "source", "checked_on"),
)
# Days without peak hours: `weekdays` is Saturday and Sunday in UTC, `cn` those and the public holidays of Beijing.
CALENDARS = ("weekdays", "cn")
FREE = "free"
# Tables keep rates with nine digits on either side of the point.
PLACES = Decimal("0.000000001")
LIMIT = Decimal(10) ** 9

_RATE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_CURRENCY = re.compile(r"[A-Z]{3}")
_WINDOW = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)")


@dataclass(frozen=True)
class Card:
    """Rates per million tokens, outside peak hours where there are such; None is a rate that is not stated.

    The card holds from `valid_from` until before `valid_to`, None being open. In `windows` (`HH:MM-HH:MM` in UTC,
    end exclusive) all rates are `peak_factor` times as high, on the days that `calendar` leaves.
    """

    id: str
    provider: str
    model: str
    currency: str
    valid_from: datetime | None
    valid_to: datetime | None
    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write: Decimal | None
    peak_factor: Decimal | None
    windows: tuple[str, ...]
    calendar: str | None
    source: str | None
    checked_on: date | None
    price_source: PriceSource
    line: int

    @property
    def prefix(self) -> str | None:
        """What the names of its models start with; None where it is for one name only."""
        return self.model[:-1] if self.model.endswith("*") else None

    @property
    def rank(self) -> tuple[object, ...]:
        """What must not be equal for two cards of one file."""
        return (self.provider, self.model, self.currency, self.valid_from)

    @property
    def rates(self) -> dict[str, Decimal]:
        """The rates that are stated, by bucket."""
        buckets = {name: getattr(self, name) for name in ("input", "output", "cache_read", "cache_write")}
        return {name: rate for name, rate in buckets.items() if rate is not None}

    def is_for(self, provider: str, model: str) -> bool:
        """Whether it prices that model on that route."""
        names = model == self.model if self.prefix is None else model.startswith(self.prefix)
        return names and provider == self.provider

    def holds_at(self, at: datetime) -> bool:
        """Whether the instant lies in its period."""
        return (self.valid_from is None or self.valid_from <= at) and (self.valid_to is None or at < self.valid_to)


def read_card(row: Mapping[str, str], price_source: PriceSource, line: int) -> Card:
    """The card of a row; absent columns count as empty. Raises ValueError saying what is wrong with it."""
    cells = {name: row.get(name, "").strip() for name in COLUMNS}
    rates = _rates(cells)
    card = Card(
        id=_needed(cells, "id"),
        provider=_needed(cells, "provider"),
        model=_needed(cells, "model"),
        currency=_needed(cells, "currency"),
        valid_from=_instant(cells, "valid_from"),
        valid_to=_instant(cells, "valid_to"),
        input=_stated(rates, "input"),
        output=_stated(rates, "output"),
        cache_read=rates["cache_read"],
        cache_write=rates["cache_write"],
        peak_factor=_rate(cells, "peak_factor"),
        windows=tuple(cells["windows"].split()),
        calendar=cells["calendar"] or None,
        source=cells["source"] or None,
        checked_on=_date(cells, "checked_on"),
        price_source=price_source,
        line=line,
    )
    _check(card)
    return card


def _check(card: Card) -> None:
    """What the cells say together. Raises ValueError."""
    if not _CURRENCY.fullmatch(card.currency):
        raise ValueError(f"currency {card.currency!r} is no code of three capital letters")
    if "*" in card.model[:-1]:
        raise ValueError(f"model {card.model!r}: a `*` may only be the last character")
    if card.valid_from and card.valid_to and card.valid_from >= card.valid_to:
        raise ValueError("valid_to is not after valid_from")
    for window in card.windows:
        if not _WINDOW.fullmatch(window) or window[:5] >= window[6:]:
            raise ValueError(f"windows: {window!r} is no span such as 01:00-04:00 within one day of UTC")
    if bool(card.windows) != (card.peak_factor is not None):
        raise ValueError("peak_factor and windows belong together")
    if card.calendar is not None and (card.calendar not in CALENDARS or not card.windows):
        raise ValueError(f"calendar is one of {', '.join(CALENDARS)}, and only beside windows")
    for name, rate in card.rates.items():
        peak = rate * (card.peak_factor or 1)
        if peak >= LIMIT or peak != peak.quantize(PLACES):
            raise ValueError(f"{name} in peak hours is {peak}, which has too many digits")


def _rates(cells: Mapping[str, str]) -> dict[str, Decimal | None]:
    names = ("input", "output", "cache_read", "cache_write")
    if cells["input"] == FREE:
        if any(cells[name] for name in names[1:]):
            raise ValueError(f"a card that says {FREE} has no other rates")
        return dict.fromkeys(names, Decimal(0))
    return {name: _rate(cells, name) for name in names}


def _rate(cells: Mapping[str, str], name: str) -> Decimal | None:
    if not cells[name]:
        return None
    if not _RATE.fullmatch(cells[name]):
        raise ValueError(f"{name} {cells[name]!r} is no number such as 0.14, at most nine digits before and behind")
    return Decimal(cells[name])


def _stated(rates: Mapping[str, Decimal | None], name: str) -> Decimal:
    rate = rates[name]
    if rate is None:
        raise ValueError(f"{name} is empty")
    return rate


def _needed(cells: Mapping[str, str], name: str) -> str:
    if not cells[name]:
        raise ValueError(f"{name} is empty")
    return cells[name]


def _instant(cells: Mapping[str, str], name: str) -> datetime | None:
    return parse_instant(cells[name], name) if cells[name] else None


def parse_instant(text: str, name: str) -> datetime:
    """An instant with its offset from UTC, such as 2026-08-16T16:00:00Z. Raises ValueError."""
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{name} {text!r} is no instant such as 2026-08-16T16:00:00Z")


def _date(cells: Mapping[str, str], name: str) -> date | None:
    if not cells[name]:
        return None
    try:
        return date.fromisoformat(cells[name])
    except ValueError:
        raise ValueError(f"{name} {cells[name]!r} is no date such as 2026-08-16") from None
