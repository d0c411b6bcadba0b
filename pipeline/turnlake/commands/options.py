"""Kinds of values that options of several commands take."""

from __future__ import annotations

import argparse


def whole_number(text: str) -> int:
    """A whole number from 1. Raises ArgumentTypeError for anything else."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)
