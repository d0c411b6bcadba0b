"""The numbers of a report, from the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from turnlake.reports.usage.lacks import Lacks, lacks_of
from turnlake.reports.usage.period import Period
from turnlake.reports.usage.questions import Row, ask

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# What `--by` takes -> the columns that make a row.
KEYS = {
    "day": ("day",),
    "project": ("project",),
    "model": ("provider", "model"),
    "session": ("session_id", "project"),
    "turn": ("session_id", "turn", "state", "project"),
    "tool": ("tool_name",),
}
# What tells the time of a row; a day does itself.
SPANS = {"session": ("first_at", "last_at"), "turn": ("first_at", "last_at")}
COUNTS = ("session_count", "turn_count", "attempt_count")
TOKENS = tuple(f"{kind}_tokens" for kind in ("input", "output", "cache_read", "cache_write", "reasoning", "total"))
EMPTY = ("count", "input_tokens", "output_tokens", "total_tokens", "cost")
MEASURES = (
    *COUNTS,
    *TOKENS,
    "cache_hit_ratio",
    "cost",
    "unknown_usage_attempt_count",
    "unpriced_attempt_count",
    *(f"empty_max_tokens_{name}" for name in EMPTY),
)
OUTCOMES = tuple(f"{name}_count" for name in "ok error denied aborted not_started unknown open".split())
TOOL_MEASURES = (
    "call_count",
    *OUTCOMES,
    "error_ratio",
    "measured_count",
    "p50_ms",
    "p90_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
)


@dataclass(frozen=True)
class Built:
    """What the database was made from. `log_count` are the logs that count; times are None where it does not tell."""

    log_count: int
    last_event_at: datetime | None
    last_billed_at: datetime | None
    built_at: datetime | None
    currency: str
    price_table_checked_on: date | None
    override_price_count: int


@dataclass(frozen=True)
class Before:
    """The period before, and what it used."""

    period: Period
    totals: Row


@dataclass(frozen=True)
class Report:
    """What a period used, in `rows` by the columns of KEYS[by]. `totals` are of all rows, whatever they are by.

    The rows of tools have measures of their own, and a total of their own.
    """

    by: str
    period: Period
    rows: Sequence[Row]
    totals: Row
    tool_totals: Row | None
    lacks: Lacks
    built: Built
    before: Before | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was called in the period."""
        return not self.totals["attempt_count"] and not self.rows

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the numbers in a row."""
        return TOOL_MEASURES if self.by == "tool" else MEASURES

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all that is in a row."""
        return (*KEYS[self.by], *SPANS.get(self.by, ()), *self.measures)


def usage_report(
    db: DuckDBPyConnection, by: str, period: Period, hide: Callable[[str], str], *, compare: bool = False
) -> Report:
    """The report on a period; `hide` makes of a project's path what may be shown. Raises UsageError as `ask` does."""
    [built] = ask(db, "built_from", period)
    totals = totals_of(db, period)
    unpriced, unmetered = ask(db, "unpriced", period), ask(db, "unmetered", period)
    has_limits = period.since is not None or period.until is not None
    rows, tool_totals = tools_of(db, period) if by == "tool" else (usage_by(db, period, KEYS[by], hide), None)
    return Report(
        by,
        period,
        rows,
        totals,
        tool_totals,
        lacks_of(totals, unpriced, unmetered, built, has_limits=has_limits),
        Built(**{name: built[name] for name in Built.__dataclass_fields__}),
        Before(period.before(), totals_of(db, period.before())) if compare else None,
    )


def usage_by(db: DuckDBPyConnection, period: Period, keys: Sequence[str], hide: Callable[[str], str]) -> list[Row]:
    """A row for each value of the keys, the costliest first, days in their order; times are in the period's zone."""

    def shown(row: Row) -> Row:
        times = {name: row[name] and row[name].astimezone(period.tz) for name in ("first_at", "last_at")}
        return row | times | {"project": None if row["project"] is None else hide(row["project"])}

    return [shown(row) for row in ask(db, "usage", period, keys)]


def totals_of(db: DuckDBPyConnection, period: Period) -> Row:
    """What a period used, all together; nothing was called: that is known, and 0."""
    rows = ask(db, "usage", period)
    nothing = dict.fromkeys(MEASURES, 0) | {"cost": Decimal(0), "empty_max_tokens_cost": Decimal(0)}
    found = rows[0] if rows else nothing | {"cache_hit_ratio": None}
    return {name: found[name] for name in MEASURES}


def tools_of(db: DuckDBPyConnection, period: Period) -> tuple[list[Row], Row]:
    """A row for each tool, and that of all of them."""
    rows = ask(db, "tools", period)
    nothing = {name: 0 if name.endswith("_count") else None for name in TOOL_MEASURES}
    total = next((row for row in rows if row["is_total"]), nothing)
    return [row for row in rows if not row["is_total"]], {name: total[name] for name in TOOL_MEASURES}
