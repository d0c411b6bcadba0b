"""Cards out of the price map that LiteLLM publishes, a JSON file: today's rates of many providers, no history.

Its main rates are those of peak hours where an entry has `off_peak_pricing`; ours are those outside.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from turnlake.errors import UsageError
from turnlake.prices.card import read_card
from turnlake.prices.rates import minutes

# Name of a rate in the map -> column of a price file.
RATES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
DAY = 24 * 60
WEEKDAYS = range(1, 8)
BEIJING_MIDNIGHT = 16 * 60
MILLION = 1_000_000


class Unfit(ValueError):
    """An entry that no card can say."""


@dataclass(frozen=True)
class Imported:
    """Rows for a price file, and how many entries gave none, by reason."""

    rows: tuple[dict[str, str], ...]
    left_out: Mapping[str, int]


def read_price_map(path: Path, valid_from: datetime, checked_on: date) -> Imported:
    """The entries of the map as rows that hold from that instant. Raises UsageError where it is no such map."""
    try:
        entries = json.loads(path.read_bytes(), parse_float=Decimal)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if not isinstance(entries, dict):
        raise UsageError(f"{path} is no price map: an object with an entry for each model")
    dated = {"currency": "USD", "valid_from": valid_from.isoformat().replace("+00:00", "Z"), "source": path.name}
    dated["checked_on"] = checked_on.isoformat()
    rows: dict[tuple[str, str], dict[str, str]] = {}
    left_out = Counter[str]()
    for name, entry in sorted(entries.items()):
        try:
            row = _row(name, entry) | dated
            row["id"] = f"{row['provider']}/{row['model']}/{row['valid_from']}"
            read_card(row, "override", 0)
            if rows.setdefault((row["provider"], row["model"]), row) is not row:
                raise Unfit("named twice")
        except Unfit as reason:
            left_out[str(reason)] += 1
        except ValueError:
            left_out["numbers that no card holds"] += 1
    return Imported(tuple(rows.values()), dict(sorted(left_out.items())))


def _row(name: str, entry: Any) -> dict[str, str]:
    if not isinstance(entry, dict) or not isinstance(entry.get("litellm_provider"), str):
        raise Unfit("no provider")
    if "*" in name:
        raise Unfit("a `*` in the name")
    provider = entry["litellm_provider"]
    rates = _rates(entry)
    if not {"input", "output"} <= rates.keys():
        raise Unfit("no price for tokens")
    row = {"provider": provider, "model": name.removeprefix(f"{provider}/")}
    if "off_peak_pricing" in entry:
        row |= _clock(entry["off_peak_pricing"], rates)
        rates = _rates(entry["off_peak_pricing"])
    return row | {column: f"{rate:f}" for column, rate in rates.items()}


def _rates(entry: Any) -> dict[str, Decimal]:
    """The rates for a million tokens, by column."""
    if not isinstance(entry, dict):
        raise Unfit("off-peak prices in a shape unknown here")
    stated = {column: entry[name] for name, column in RATES.items() if entry.get(name) is not None}
    if any(isinstance(rate, bool) or not isinstance(rate, int | Decimal) or rate < 0 for rate in stated.values()):
        raise Unfit("a price that is no number")
    return {column: (Decimal(rate) * MILLION).normalize() for column, rate in stated.items()}


def _clock(block: Any, peak: Mapping[str, Decimal]) -> dict[str, str]:
    """Factor, windows and calendar of an entry with off-peak prices. Raises Unfit."""
    low = _rates(block)
    factors = {peak[column] / low[column] for column in low if column in peak and low[column]}
    if low.keys() != peak.keys() or len(factors) != 1 or not all(low.values()):
        raise Unfit("off-peak prices without one common factor")
    by_day = {day: tuple(_rest(_low_minutes(block, day))) for day in WEEKDAYS}
    spans = by_day[1]
    days_off = [day for day in WEEKDAYS if not by_day[day]]
    if not spans or any(by_day[day] not in (spans, ()) for day in WEEKDAYS) or days_off not in ([], [6, 7]):
        raise Unfit("peak hours that differ by weekday")
    zone = block.get("weekday_timezone") or "UTC"
    # Up to then the date of Beijing is that of UTC.
    if days_off and not (zone == "UTC" or (zone == "Asia/Shanghai" and spans[-1][1] <= BEIJING_MIDNIGHT)):
        raise Unfit("weekdays of a zone unknown here")
    windows = " ".join(f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}" for start, end in spans)
    return {"peak_factor": f"{factors.pop():f}", "windows": windows, "calendar": "weekdays" if days_off else ""}


def _low_minutes(block: Mapping[str, Any], day: int) -> set[int]:
    """The minutes of a weekday, 1 being Monday, that have the lower prices."""
    low = set[int]()
    windows = block.get("windows") or []
    for window in (*(windows if isinstance(windows, list) else [None]), {"hours_utc": block.get("hours_utc") or []}):
        if not isinstance(window, dict):
            raise Unfit("off-peak prices in a shape unknown here")
        weekdays = window.get("weekdays") or list(WEEKDAYS)
        if not set(weekdays) <= set(WEEKDAYS):
            raise Unfit("off-peak prices in a shape unknown here")
        hours = window.get("hours_utc")
        if day in weekdays:
            for span in [hours] if isinstance(hours, str) else hours or []:
                low |= _span(span)
    return low


def _span(text: Any) -> set[int]:
    """The minutes of a span such as `16:30-00:30`, which may pass midnight; equal ends are a whole day."""
    try:
        start, end = (minutes(clock) for clock in text.split("-"))
    except (AttributeError, ValueError):
        raise Unfit("off-peak prices in a shape unknown here") from None
    return set(range(start, end)) if start < end else {*range(start, DAY), *range(end)}


def _rest(low: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The spans of a day outside those minutes."""
    edges = [-1, *sorted(low), DAY]
    return ((before + 1, after) for before, after in itertools.pairwise(edges) if after - before > 1)
