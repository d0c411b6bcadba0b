"""Kinds of values that options of several commands take."""

from __future__ import annotations

import argparse

_UNITS = {"s": 1, "m": 60, "h": 3600}


def whole_number(text: str) -> int:
    """A whole number from 1. Raises ArgumentTypeError for anything else."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def seconds(text: str) -> float:
    """A time such as 30s, 5m or 1h, in seconds. Raises ArgumentTypeError for anything else."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.replace(".", "", 1).isdecimal() or not float(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 30s, 5m or 1h")
    return float(number) * _UNITS[unit]
