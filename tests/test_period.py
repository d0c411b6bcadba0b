"""Instants and time zones as people write them."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from turnlake.commands.options import seconds, span
from turnlake.errors import UsageError
from turnlake.period import parse_since, time_zone

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)  # already 1 December in Berlin


@pytest.mark.parametrize(
    ("text", "utc", "berlin"),
    [
        ("2026-11-01", "2026-11-01T00:00", "2026-10-31T23:00"),
        ("2026-07-01", "2026-07-01T00:00", "2026-06-30T22:00"),
        ("2026-11-01T08:00", "2026-11-01T08:00", "2026-11-01T07:00"),
        ("2026-11-01 08:00:30.5", "2026-11-01T08:00:30.500000", "2026-11-01T07:00:30.500000"),
        ("2026-11-01T08:00Z", "2026-11-01T08:00", "2026-11-01T08:00"),
        ("2026-11-01T08:00+05:30", "2026-11-01T02:30", "2026-11-01T02:30"),
        ("24h", "2026-11-29T23:30", "2026-11-29T23:30"),
        ("90m", "2026-11-30T22:00", "2026-11-30T22:00"),
        ("7d", "2026-11-23T00:00", "2026-11-23T23:00"),
        ("1d", "2026-11-29T00:00", "2026-11-29T23:00"),
    ],
)
def test_an_instant(text: str, utc: str, berlin: str) -> None:
    assert parse_since(text, UTC, NOW) == datetime.fromisoformat(f"{utc}+00:00")
    found = parse_since(text, BERLIN, NOW)
    assert (found, found.tzinfo) == (datetime.fromisoformat(f"{berlin}+00:00"), UTC)


def test_a_day_whose_midnight_the_clocks_skip_starts_when_they_do() -> None:
    # In 2018 Brazil went from 00:00 to 01:00 on 4 November, at 03:00 UTC.
    found = parse_since("2018-11-04", ZoneInfo("America/Sao_Paulo"), NOW)
    assert found == datetime(2018, 11, 4, 3, tzinfo=UTC)


def test_days_are_those_of_the_calendar_also_when_clocks_change() -> None:
    now = datetime(2026, 10, 26, 12, tzinfo=UTC)  # the day after summer time ended in Berlin
    assert parse_since("2d", BERLIN, now) == datetime(2026, 10, 23, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "7", "0d", "-1d", "7y", "2026-13-01", "2026-1-1", "20261101", "2026-11-01T25:00", "٧d",
     "9999999d", "999999d", "2026-11-01T08:00+99:00", "0001-01-01T00:00+10:00", "7d\n"],
)  # fmt: skip
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(UsageError, match="is no instant such as 2026-11-01"):
        parse_since(text, UTC, NOW)


def test_the_option_is_named() -> None:
    with pytest.raises(UsageError, match=r"^argument --until: 'yesterday' is no instant"):
        parse_since("yesterday", UTC, NOW, "--until")


def test_weeks_are_seven_days() -> None:
    assert parse_since("2w", BERLIN, NOW) == parse_since("14d", BERLIN, NOW)


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [("1s", 1, "1 second"), ("90s", 90, "90 seconds"), ("90m", 5400, "90 minutes"), ("26h", 93600, "26 hours"),
     ("1d", 86400, "24 hours"), ("1w", 604800, "168 hours"),
     ("0.5s", 0.5, "0.5 seconds"), ("1.5h", 5400, "90 minutes")],
)  # fmt: skip
def test_a_span_of_time(text: str, number: float, words: str) -> None:
    assert (seconds(text), span(seconds(text))) == (number, words)


def test_time_zones() -> None:
    assert time_zone("Europe/Berlin") == BERLIN
    assert time_zone("utc") is UTC


@pytest.mark.parametrize("text", ["Mars/Base", "", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b", "x" * 5000])
def test_what_is_no_time_zone(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no time zone such as UTC or Europe/Berlin"):
        time_zone(text)


def test_the_nearest_time_zone_is_named() -> None:
    with pytest.raises(ArgumentTypeError, match=r"did you mean Europe/Berlin\?"):
        time_zone("Europe/Berlinn")
