"""Alerts asked of a lake: what each found, and why an alert could not be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from turnlake.alerts.queries import AlertQuery
from turnlake.console import as_text
from turnlake.errors import QueryError
from turnlake.models.text import reason

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

# The gravest first.
SEVERITIES = ("error", "warning", "advisory")
COLUMNS = ("session_id", "turn", "at", "severity", "message")
# More things than anybody could look at: such a query is no alert.
ROWS_AT_MOST = 100_000

# A literal null has a type of its own.
_UNTYPED = '"NULL"'
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_TYPES = {
    "session_id": ("VARCHAR", _UNTYPED),
    "turn": (*_INTEGERS, *(f"U{name}" for name in _INTEGERS), _UNTYPED),
    "at": ("TIMESTAMP WITH TIME ZONE", _UNTYPED),
    "severity": ("VARCHAR",),
    "message": ("VARCHAR",),
}


@dataclass(frozen=True)
class Fired:
    """A thing to look at. `at` is in UTC; `details` are the other columns; `key` is what it is known by."""

    alert: str
    severity: str
    at: datetime | None
    session_id: str | None
    turn: int | None
    message: str
    details: Mapping[str, Any]
    key: tuple[str | None, ...]


@dataclass(frozen=True)
class Outcome:
    """What fired, the gravest first; the alerts that were asked; those that could not be, with file and reason."""

    fired: tuple[Fired, ...]
    asked: tuple[str, ...]
    broken: Mapping[str, str]

    def since(self, instant: datetime | None) -> Outcome:
        """Without what is known to have happened before that instant."""
        if instant is None:
            return self
        return replace(self, fired=tuple(thing for thing in self.fired if thing.at is None or thing.at >= instant))

    def counts(self) -> dict[str, int]:
        """How many things there are of each severity."""
        counted = Counter(thing.severity for thing in self.fired)
        return {severity: counted[severity] for severity in SEVERITIES}

    def is_as_grave_as(self, severity: str) -> bool:
        """Whether anything of that severity or a graver one fired."""
        grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(thing.severity in grave for thing in self.fired)


def run_alerts(queries: Iterable[AlertQuery], db: DuckDBPyConnection) -> Outcome:
    """Asks each alert. One that can't be asked is told in `broken`, and hides nothing of the others."""
    fired: list[Fired] = []
    asked, broken = [], {}
    for query in queries:
        try:
            fired += run_alert(query, db)
            asked.append(query.name)
        except QueryError as error:
            broken[query.name] = str(error)
    fired.sort(key=lambda thing: SEVERITIES.index(thing.severity))
    return Outcome(tuple(fired), tuple(asked), broken)


def run_alert(query: AlertQuery, db: DuckDBPyConnection) -> list[Fired]:
    """What one alert found, in its order. Raises QueryError with file and reason where it is no alert or fails."""
    import duckdb

    try:
        sql, key = query.read()
        _check_is_select(sql, db)
        relation = db.sql(sql)
        _check_columns(relation, key)
        rows = relation.limit(ROWS_AT_MOST + 1).fetchall()
        if len(rows) > ROWS_AT_MOST:
            raise QueryError(f"it gives more than {ROWS_AT_MOST:,} rows: an alert names what somebody can look at")
        return [_thing(query.name, relation.columns, key, row) for row in rows]
    except duckdb.Error as error:
        raise QueryError(f"{query.path}: {reason(error)}") from error
    except (QueryError, OSError, ValueError, OverflowError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise QueryError(f"{query.path}: {told}") from error


def _check_is_select(sql: str, db: DuckDBPyConnection) -> None:
    import duckdb

    statements = db.extract_statements(sql)
    # A COPY could still write into the lake's own folder.
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError("an alert is one select and nothing else")


def _check_columns(relation: DuckDBPyRelation, key: Sequence[str]) -> None:
    names, types = relation.columns, [str(kind) for kind in relation.types]
    if tuple(names[: len(COLUMNS)]) != COLUMNS:
        raise QueryError(f"its first columns must be {', '.join(COLUMNS)}; they are {', '.join(names[: len(COLUMNS)])}")
    for name, kind in zip(COLUMNS, types, strict=False):
        if kind not in _TYPES[name]:
            raise QueryError(f"its column {name} is of type {kind}, not {_TYPES[name][0]}")
    if len(set(names)) < len(names):
        raise QueryError("two of its columns share a name")
    if unknown := [name for name in key if name not in names]:
        raise QueryError(f"its key names {', '.join(unknown)}, which is none of its columns")


def _thing(alert: str, names: Sequence[str], key: Sequence[str], row: Sequence[Any]) -> Fired:
    cells = dict(zip(names, row, strict=True))
    severity, at = cells["severity"], cells["at"]
    if severity not in SEVERITIES:
        raise QueryError(f"it gives the severity {severity!r}, which is none of {', '.join(SEVERITIES)}")
    return Fired(
        alert=alert,
        severity=severity,
        # Infinity comes without a zone: it is no instant.
        at=at if at is not None and at.tzinfo else None,
        session_id=cells["session_id"],
        turn=cells["turn"],
        message=cells["message"] or "(no message)",
        details={name: cells[name] for name in names[len(COLUMNS) :]},
        # What becomes graver is a new thing.
        key=(severity, *(None if cells[name] is None else as_text(cells[name]) for name in key)),
    )
