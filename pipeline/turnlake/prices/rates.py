"""Which card and band price a call at an instant, and until when: for people to ask; the models say the same in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Literal

from turnlake.prices.card import Card
from turnlake.prices.prices import Prices

Band = Literal["flat", "peak", "off-peak"]

# China has had one zone without summer time since 1992.
ZONES = {"cn": timezone(timedelta(hours=8)), "weekdays": UTC}
FRIDAY = 5
# Longer than any run of holidays and weekends.
DAYS_AHEAD = 31


@dataclass(frozen=True)
class Rate:
    """What prices a call: `rates` are for a million tokens in the band, by bucket.

    `until` is the next instant at which band or card changes, `then` what follows: a band, the id of a card, or None
    for no card. Both are None where no change is in sight.
    """

    card: Card
    band: Band
    rates: dict[str, Decimal]
    until: datetime | None
    then: str | None


def routes(prices: Prices, model: str) -> list[str]:
    """The providers of which a card in the currency of the lake is for the model, by name."""
    return sorted({card.provider for card in _applied(prices) if card.is_for(card.provider, model)})


def rate_at(prices: Prices, provider: str, model: str, at: datetime) -> Rate | None:
    """The rate of a call at an instant with its zone; None where no card is in force."""
    card = card_at(prices, provider, model, at)
    if card is None:
        return None
    band = band_at(prices, card, at)
    factor = card.peak_factor if band == "peak" and card.peak_factor is not None else Decimal(1)
    rates = {name: rate * factor for name, rate in card.rates.items()}
    for change in sorted(_changes(prices, card, provider, model, at)):
        follower = card_at(prices, provider, model, change)
        if follower is not card:
            return Rate(card, band, rates, change, follower.id if follower else None)
        if (then := band_at(prices, card, change)) != band:
            return Rate(card, band, rates, change, then)
    return Rate(card, band, rates, None, None)


def card_at(prices: Prices, provider: str, model: str, at: datetime) -> Card | None:
    """The one card in force: the user's before a built-in one, an exact name before the longest pattern, the latest."""
    fitting = (card for card in _applied(prices) if card.is_for(provider, model) and card.holds_at(at))
    return max(fitting, key=_rank, default=None)


def band_at(prices: Prices, card: Card, at: datetime) -> Band:
    """The band of a card at an instant."""
    if not card.windows:
        return "flat"
    clock = at.astimezone(UTC).strftime("%H:%M")
    in_window = any(window[:5] <= clock < window[6:] for window in card.windows)
    return "peak" if in_window and _has_peak(prices, card.calendar, at) else "off-peak"


def _applied(prices: Prices) -> Iterator[Card]:
    return (card for card in prices.cards if card.currency == prices.currency)


def _rank(card: Card) -> tuple[bool, bool, int, datetime]:
    since = card.valid_from or datetime.min.replace(tzinfo=UTC)
    return card.price_source == "override", card.prefix is None, len(card.model), since


def _has_peak(prices: Prices, calendar: str | None, at: datetime) -> bool:
    if calendar is None:
        return True
    day = at.astimezone(ZONES[calendar]).date()
    return day.isoweekday() <= FRIDAY and not _is_holiday(prices, calendar, day)


def _is_holiday(prices: Prices, calendar: str, day: date) -> bool:
    return any(holiday.calendar == calendar and holiday.day == day for holiday in prices.holidays)


def _changes(prices: Prices, card: Card, provider: str, model: str, at: datetime) -> Iterator[datetime]:
    """The instants after `at` at which another card or band may begin."""
    for other in _applied(prices):
        if other.is_for(provider, model):
            yield from (edge for edge in (other.valid_from, other.valid_to) if edge is not None and edge > at)
    if not card.windows:
        return
    midnight = datetime.combine(at.astimezone(UTC).date(), time(), UTC)
    edges = {0, *(minutes(edge) for window in card.windows for edge in window.split("-"))}
    if card.calendar is not None:
        # Where the calendar's day begins, as UTC tells the time.
        edges.add(-int(ZONES[card.calendar].utcoffset(None).total_seconds()) // 60 % (24 * 60))
    for day in range(DAYS_AHEAD):
        for edge in edges:
            change = midnight + timedelta(days=day, minutes=edge)
            if change > at:
                yield change


def minutes(clock: str) -> int:
    """Minutes from midnight to a time such as `06:30` or `24:00`."""
    hours, _, rest = clock.partition(":")
    return 60 * int(hours) + int(rest)
