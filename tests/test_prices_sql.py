"""The pricing models: which card, which band, what it costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prices import call, ms, own_cards, priced, with_own
from turnlake.prices.prices import Prices, load_prices
from turnlake.prices.rates import rate_at

PRO, FLASH, NEW = "deepseek-v4-pro", "deepseek-v4-flash", "deepseek-flash"

# What a million uncached prompt tokens cost at an instant, and the band.
VECTORS = [
    (PRO, "2026-04-26T12:14:59.999Z", None, None),
    (PRO, "2026-04-26T12:15:00Z", "flat", "0.435"),
    (PRO, "2026-08-10T02:00:00Z", "flat", "0.435"),
    (PRO, "2026-08-16T15:59:59.999Z", "flat", "0.435"),
    (PRO, "2026-08-16T16:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-08-17T00:59:59.999Z", "off-peak", "0.66"),
    (PRO, "2026-08-17T01:00:00Z", "peak", "1.32"),
    (PRO, "2026-08-17T03:59:59.999Z", "peak", "1.32"),
    (PRO, "2026-08-17T04:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-08-17T05:59:59.999Z", "off-peak", "0.66"),
    (PRO, "2026-08-17T06:00:00Z", "peak", "1.32"),
    (PRO, "2026-08-17T09:59:59.999Z", "peak", "1.32"),
    (PRO, "2026-08-17T10:00:00Z", "off-peak", "0.66"),
    # A Saturday before the rule for weekends, its first instant, the days after.
    (PRO, "2026-08-22T01:30:00Z", "peak", "1.32"),
    (PRO, "2026-08-22T09:59:59.999Z", "peak", "1.32"),
    (PRO, "2026-08-22T16:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-08-23T01:30:00Z", "off-peak", "0.66"),
    (PRO, "2026-08-24T01:30:00Z", "peak", "1.32"),
    (PRO, "2026-08-24T04:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-08-28T09:59:00Z", "peak", "1.32"),
    (PRO, "2026-08-29T02:00:00Z", "off-peak", "0.66"),
    # Pro was never moved to the card of Flash.
    (PRO, "2026-09-14T06:00:00Z", "peak", "1.32"),
    (PRO, "2026-09-15T12:00:00Z", "off-peak", "0.66"),
    # Holidays, and weekend days that are worked instead.
    (PRO, "2026-09-20T02:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-09-25T02:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-10-01T02:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-10-07T09:00:00Z", "off-peak", "0.66"),
    (PRO, "2026-10-08T02:00:00Z", "peak", "1.32"),
    (PRO, "2026-10-10T02:00:00Z", "off-peak", "0.66"),
    (FLASH, "2026-08-20T02:00:00Z", "peak", "0.44"),
    (FLASH, "2026-09-10T03:59:59.999Z", "peak", "0.44"),
    (FLASH, "2026-09-10T04:00:00Z", "off-peak", "0.15"),
    (FLASH, "2026-09-10T06:00:00Z", "peak", "0.30"),
    ("deepseek-v4-flash-vision-exp", "2026-08-24T12:00:00Z", "off-peak", "0.22"),
    (NEW, "2026-09-10T03:59:59.999Z", None, None),
    (NEW, "2026-09-10T04:00:00Z", "off-peak", "0.15"),
]
TIMES = st.integers(ms("2026-04-20T00:00:00Z"), ms("2027-02-01T00:00:00Z"))
TOKENS = st.integers(0, 2**53)


def test_every_instant_at_which_something_changes() -> None:
    for zone in ("UTC", "America/Denver", "Asia/Shanghai"):
        found = priced(load_prices(), [call(at, model) for model, at, _, _ in VECTORS], zone)
        for (model, at, band, cost), row in zip(VECTORS, found, strict=True):
            assert (row["price_window"], row["cost"]) == (band, cost and Decimal(cost)), (model, at, zone)
            assert row["price_source"] == ("unpriced" if band is None else "builtin")


@pytest.mark.parametrize("route", ["deepseek-official", "deepseek-account"])
def test_python_says_the_same_as_sql(route: str) -> None:
    prices = load_prices()
    for model, at, band, cost in VECTORS:
        rate = rate_at(prices, route, model, datetime.fromisoformat(at))
        assert (rate and rate.band, rate and rate.rates["input"]) == (band, cost and Decimal(cost)), (model, at)


def test_all_buckets_count() -> None:
    tokens = {"input": 1_000_000, "output": 1_000_000, "cache_read": 1_000_000}
    expected = [
        (PRO, "2026-08-10T02:00:00Z", "1.308625"),
        (PRO, "2026-08-16T20:00:00Z", "2.662"),
        (FLASH, "2026-08-20T02:00:00Z", "1.774"),
        (PRO, "2026-08-29T02:00:00Z", "2.662"),
        (PRO, "2026-10-01T02:00:00Z", "2.662"),
    ]
    found = priced(load_prices(), [call(at, model, **tokens) for model, at, _ in expected])
    assert [row["cost"] for row in found] == [Decimal(cost) for _, _, cost in expected]


def test_yuan_have_a_card_of_their_own_and_no_dollar_card_applies() -> None:
    calls = [
        call("2026-08-16T15:59:59Z"),
        call("2026-08-24T12:00:00Z"),
        call("2026-08-24T02:00:00Z", FLASH),
        call("2026-09-10T12:00:00Z", FLASH),
    ]
    found = priced(load_prices(currency="CNY"), calls)
    assert [row["cost"] for row in found] == [None, Decimal("4.5"), Decimal("3"), Decimal("1")]
    assert found[0]["price_source"] == "unpriced"


def test_only_the_routes_of_the_vendor_are_known() -> None:
    found = priced(load_prices(), [call("2026-08-24T12:00:00Z", provider=name) for name in ("deepseek", "acme", None)])
    assert [(row["price_source"], row["cost"]) for row in found] == [("unpriced", None)] * 3


def test_unknown_usage_is_not_also_unpriced() -> None:
    calls = [call("2026-08-24T12:00:00Z", model, input=None) for model in (PRO, "other")]
    known, unknown = priced(load_prices(), calls)
    assert (known["price_source"], known["cost"]) == ("builtin", None)
    assert (unknown["price_source"], unknown["price_id"], unknown["cost"]) == (None, None, None)


def test_a_call_without_time_is_unpriced() -> None:
    (row,) = priced(load_prices(), [call(None)])
    assert (row["price_source"], row["cost"]) == ("unpriced", None)


def test_a_date_beyond_the_calendar_is_priced_by_weekday_and_says_so() -> None:
    before, after, weekend = priced(
        load_prices(), [call("2026-12-31T15:59:59Z"), call("2027-01-01T02:00:00Z"), call("2027-01-02T02:00:00Z")]
    )
    assert (before["price_note"], before["price_window"]) == (None, "off-peak")
    assert (after["price_note"], after["price_window"]) == ("holiday calendar ends 2026", "peak")
    assert weekend["price_window"] == "off-peak"


def test_a_bucket_without_a_rate_is_priced_as_input_and_says_so() -> None:
    prices = with_own({"input": "2", "output": "3"})
    calls = [
        call("2026-08-24T12:00:00Z", "coder", "acme", input=0, output=0, cache_write=1_000_000),
        call("2026-08-24T12:00:00Z", "coder", "acme", input=0, output=0, cache_read=1_000_000),
        call("2026-08-24T12:00:00Z", "coder", "acme", input=1, output=0, cache_write=0),
    ]
    write, read, none = priced(prices, calls)
    assert (write["cost"], write["price_note"]) == (2, "cache write priced as input")
    assert (read["cost"], read["price_note"]) == (2, "cache read priced as input")
    assert none["price_note"] is None


def test_free_is_a_price() -> None:
    (row,) = priced(with_own({"input": "free", "output": ""}), [call("2026-08-24T12:00:00Z", "coder", "acme")])
    assert (row["cost"], row["price_source"], row["price_window"]) == (0, "override", "flat")


def test_rank_is_own_then_exact_then_longest_then_latest() -> None:
    prices = with_own(
        {"id": "any", "model": "*", "input": "1"},
        {"id": "long", "model": "coder-*", "input": "2"},
        {"id": "exact", "model": "coder-9", "input": "3"},
        {"id": "later", "model": "coder-9", "input": "4", "valid_from": "2026-09-01T00:00:00Z"},
        {"id": "mine", "provider": "deepseek-official", "model": "deepseek-*", "input": "5"},
        {"id": "short", "model": "coder-9", "input": "6", "valid_from": "2026-09-10T00:00:00Z",
         "valid_to": "2026-09-11T00:00:00Z"},
    )  # fmt: skip
    calls = [
        call("2026-08-24T12:00:00Z", "other", "acme"),
        call("2026-08-24T12:00:00Z", "coder-8", "acme"),
        call("2026-08-24T12:00:00Z", "coder-9", "acme"),
        call("2026-09-01T00:00:00Z", "coder-9", "acme"),
        call("2026-08-24T12:00:00Z", PRO),
        call("2026-09-10T12:00:00Z", "coder-9", "acme"),
        call("2026-09-11T00:00:00Z", "coder-9", "acme"),
    ]
    found = [row["price_id"] for row in priced(prices, calls)]
    assert found == ["any", "long", "exact", "later", "mine", "short", "later"]


def test_quotes_in_a_price_file_are_text() -> None:
    prices = with_own({"id": "it's; drop table x --", "model": "o'coder"})
    (row,) = priced(prices, [call("2026-08-24T12:00:00Z", "o'coder", "acme")])
    assert row["price_id"] == "it's; drop table x --"


def reference(prices: Prices, row: dict[str, Any]) -> Decimal | None:
    """The cost of a call by decimals alone, from the rate that Python finds."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=row["billed_time_ms"])
    rate = rate_at(prices, row["provider"], row["model"], at)
    if rate is None:
        return None
    with localcontext(prec=60):
        cost = Decimal(0)
        for bucket in ("input", "output", "cache_read", "cache_write"):
            price = rate.rates.get(bucket, rate.rates["input"])
            cost += Decimal(row[f"{bucket}_tokens"] or 0) * price / 1_000_000
        return cost.quantize(Decimal("1e-12"), ROUND_HALF_UP)


@st.composite
def a_call(draw: st.DrawFn) -> dict[str, Any]:
    """A call at some time, on or beside the edges of the minute, of any size."""
    time = draw(TIMES)
    if draw(st.booleans()):
        time = time // 60_000 * 60_000 - draw(st.integers(0, 1))
    buckets = {f"{name}_tokens": draw(TOKENS) for name in ("input", "output")}
    buckets |= {f"{name}_tokens": draw(st.none() | TOKENS) for name in ("cache_read", "cache_write")}
    return {
        "provider": draw(st.sampled_from(["deepseek-official", "deepseek-account", "acme"])),
        "model": draw(st.sampled_from([PRO, FLASH, NEW, "coder-1", "coder-12"])),
        "billed_time_ms": time,
        **buckets,
        "total_tokens": sum(number or 0 for number in buckets.values()),
    }


@st.composite
def a_row(draw: st.DrawFn) -> dict[str, str]:
    """A row of a user's file with any rates, period, windows."""
    rates = st.decimals(0, 1000, allow_nan=False, places=6).map(lambda rate: f"{rate:f}")
    edges = st.none() | TIMES.map(lambda time: datetime.fromtimestamp(time // 1000, UTC).isoformat())
    start, end = draw(edges), draw(edges)
    if start and end and start >= end:
        end = None
    row = {
        "provider": draw(st.sampled_from(["acme", "deepseek-official"])),
        "model": draw(st.sampled_from(["*", "coder-*", "coder-1*", "coder-12", PRO])),
        "valid_from": start or "",
        "valid_to": end or "",
        "input": draw(rates),
        "output": draw(rates),
        "cache_read": draw(st.just("") | rates),
        "cache_write": draw(st.just("") | rates),
    }
    if draw(st.booleans()):
        windows = st.sampled_from(["00:00-24:00", "01:00-04:00 06:00-10:00", "15:30-23:59"])
        row |= {"peak_factor": draw(st.sampled_from(["2", "0.5", "1.25"])), "windows": draw(windows)}
        row["calendar"] = draw(st.sampled_from(["", "cn", "weekdays"]))
    return row


@given(
    st.lists(a_row(), max_size=6, unique_by=lambda row: (row["provider"], row["model"], row["valid_from"])),
    st.lists(a_call(), min_size=1, max_size=40),
)
def test_cost_is_what_decimals_give(rows: list[dict[str, str]], calls: list[dict[str, Any]]) -> None:
    builtin = load_prices()
    prices = Prices("USD", (*builtin.cards, *own_cards(*rows)), builtin.holidays)
    found = priced(prices, calls)
    assert len(found) == len(calls)
    for row, price in zip(calls, found, strict=True):
        expected = reference(prices, row)
        assert price["cost"] == expected, (row, price)
        assert (price["price_source"] == "unpriced") == (expected is None)
