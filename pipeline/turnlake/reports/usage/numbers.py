"""Numbers as people read them. Unknown is never 0."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from turnlake.console import UNKNOWN

MONEY_DIGITS = Decimal("0.0001")


def count(number: int | None) -> str:
    """A count, in groups of three digits."""
    return UNKNOWN if number is None else f"{number:,}"


def money(amount: Decimal | None) -> str:
    """An amount, rounded to four decimals; one that would round to nothing says that it is not nothing."""
    if amount is None:
        return UNKNOWN
    shown = amount.quantize(MONEY_DIGITS, ROUND_HALF_EVEN)
    return f"<{MONEY_DIGITS}" if amount > 0 and not shown else f"{shown:,}"


def percent(ratio: float | None) -> str:
    """A part of one as a percentage."""
    return UNKNOWN if ratio is None else f"{100 * ratio:.1f}%"


def duration(ms: int | None) -> str:
    """Milliseconds in the unit that fits."""
    if ms is None:
        return UNKNOWN
    if ms < 1000:
        return f"{ms:,} ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:,.1f} min"


def change(now: int | Decimal | None, before: int | Decimal | None) -> str:
    """By what part a number grew; unknown from nothing, or where one of them is unknown."""
    if now is None or not before:
        return UNKNOWN
    return f"{float(100 * (now - before) / before):+,.1f}%"


def shortened(text: str, length: int = 80) -> str:
    """The text, its middle left out where it is longer."""
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """The names, and how many more there are."""
    shown = ", ".join(map(shortened, names[:most]))
    return f"{shown} and {count(len(names) - most)} more" if len(names) > most else shown
