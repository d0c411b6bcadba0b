"""Kinds of values that options of several commands take."""

from __future__ import annotations

import argparse
import re

from turnlake.console import plural

_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def whole_number(text: str) -> int:
    """A whole number from 1. Raises ArgumentTypeError for anything else."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def engine(text: str) -> str | None:
    """Where logs are read: None for `local`, HOST:PORT for `dask://HOST:PORT`. ArgumentTypeError for anything else."""
    if text == "local":
        return None
    scheme, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    if scheme != "dask" or not _HOST.fullmatch(host) or not port.isascii() or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither local nor dask://HOST:PORT")
    return address


def seconds(text: str) -> float:
    """A time such as 30s, 5m, 1h, 2d or 1w, in seconds. Raises ArgumentTypeError for anything else."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.replace(".", "", 1).isdecimal() or not float(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 30s, 5m, 1h or 7d")
    return float(number) * _UNITS[unit]


def span(seconds: float) -> str:
    """A time in seconds in the largest unit up to hours that it is a whole number of: `26 hours`, `90 minutes`."""
    for unit, name in ((3600, "hour"), (60, "minute")):
        if seconds >= unit and seconds % unit == 0:
            return plural(int(seconds // unit), name)
    return "1 second" if seconds == 1 else f"{seconds:,.15g} seconds"
