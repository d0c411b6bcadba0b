"""What turnlake raises on purpose, and the hint that goes with an unknown word.

TurnlakeError
├── UsageError         wrong options or input: exit code 2
│   ├── SourceError    a SOURCE that is not there or can't be read
│   ├── LakeError      a lake that is missing, newer than this turnlake, or busy
│   └── QueryError     a query the database refuses
├── ModelError         a SQL model that breaks its own promises: exit code 3
└── DeliveryError      a webhook or object store that did not take what it was sent: exit code 3
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TurnlakeError(Exception):
    """Base of all errors raised on purpose; its text says what, where, and the next step."""

    exit_code = 3


class UsageError(TurnlakeError):
    """Wrong usage or input."""

    exit_code = 2


class SourceError(UsageError):
    """A source of logs that can't be used."""


class LakeError(UsageError):
    """A lake that can't be used."""


class QueryError(UsageError):
    """A query that the database refuses."""


class ModelError(TurnlakeError):
    """A SQL model that can't be read, ordered or built, or whose checks fail."""


class DeliveryError(TurnlakeError):
    """A webhook or object store that did not take what it was sent; the text holds no secret part of its URL."""


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean …?)` with the most similar known word, or nothing."""
    similar = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {similar[0]}?)" if similar else ""
