"""What turnlake raises on purpose.

TurnlakeError
├── UsageError         wrong options or input: exit code 2
│   ├── SourceError    a SOURCE that is not there or can't be read
│   ├── LakeError      a lake that is missing, newer than this turnlake, or busy
│   └── QueryError     a query the database refuses
└── ModelError         a SQL model that breaks its own promises: exit code 3
"""

from __future__ import annotations


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
