"""Instants and time zones as people write them on a command line: `--since`, `--until`, `--tz`."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from turnlake.errors import UsageError, nearest

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_AGO = re.compile(r"([1-9]\d{0,5})([mhdw])", re.ASCII)
_DAYS = {"d": 1, "w": 7}


def time_zone(text: str) -> tzinfo:
    """The time zone of that IANA name, for argparse. Raises ArgumentTypeError where there is none."""
    from zoneinfo import ZoneInfo, available_timezones

    if text.upper() in ("UTC", "Z"):
        return UTC
    try:
        # Names of files: some are folders, some lead out of the database.
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        hint = nearest(text, sorted(available_timezones()))
        raise argparse.ArgumentTypeError(f"{text!r} is no time zone such as UTC or Europe/Berlin{hint}") from None


def parse_since(text: str, tz: tzinfo, now: datetime, option: str = "--since") -> datetime:
    """The instant that `option` names, in UTC. Raises UsageError for anything else than these:

    a date: its first instant in `tz`; a date and time, in `tz` unless it has an offset; `30m` or `24h`: so long before
    `now`, which is aware; `7d` or `2w`: the first instant in `tz` of the day so many days or weeks before that of
    `now`.
    """
    try:
        return _instant(text, tz, now).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"argument {option}: {text!r} is no instant such as 2026-11-01, 2026-11-01T08:00Z, 24h or 7d"
        ) from None


def _instant(text: str, tz: tzinfo, now: datetime) -> datetime:
    if ago := _AGO.fullmatch(text):
        number = int(ago[1])
        if ago[2] in _DAYS:
            return _start_of_day(now.astimezone(tz) - timedelta(days=number * _DAYS[ago[2]]), tz)
        return now - (timedelta(hours=number) if ago[2] == "h" else timedelta(minutes=number))
    if _DATE.fullmatch(text):
        return _start_of_day(datetime.fromisoformat(text), tz)
    if not _INSTANT.fullmatch(text):
        raise ValueError(text)
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=tz)


def _start_of_day(day: datetime, tz: tzinfo) -> datetime:
    # Where clocks skip midnight, this is the instant they do; where they repeat it, the first one.
    return datetime.combine(day.date(), time.min, tzinfo=tz)
