"""A report as people see it, whatever the format: a title, a table, and lines that say what the numbers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from turnlake.console import UNKNOWN, plain, plural
from turnlake.reports.usage.numbers import change, count, duration, money, percent, shortened
from turnlake.reports.usage.questions import Row
from turnlake.reports.usage.report import Report

# A percentile of fewer calls than these says little.
P95_CALLS = 20
P99_CALLS = 100


class Column(NamedTuple):
    """A column of the table. Where room is short those of the highest rank go first; those of rank 0 stay."""

    header: str
    shown: Callable[[Row], str]
    rank: int = 0
    is_number: bool = True


@dataclass(frozen=True)
class Sheet:
    """Cells are texts without anything that steers a terminal. `notes` are pairs of a label and a sentence."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    totals: Sequence[Sequence[str]]
    notes: Sequence[tuple[str, str]]


def sheet_of(report: Report) -> Sheet:
    """The report laid out."""
    columns = [*KEY_COLUMNS[report.by], *(TOOL_COLUMNS if report.by == "tool" else USAGE_COLUMNS)]
    return Sheet(
        title_of(report),
        columns,
        [[column.shown(row) for column in columns] for row in report.rows],
        list(_totals(report, columns)),
        list(notes_of(report)),
    )


def title_of(report: Report) -> str:
    """What the report is about."""
    return f"Usage by {report.by}, {report.period.text()} ({report.period.zone})"


def notes_of(report: Report) -> Iterator[tuple[str, str]]:
    """What must be known to read the totals right: waste, lacks, units, origin."""
    totals, built = report.totals, report.built
    if report.by == "tool" and not report.is_empty:
        yield "totals", f"tools have no cost of their own; the period cost {_cost(report, totals['cost'])}"
    if report.is_empty:
        yield "calls", no_calls_text(report)
    else:
        yield "empty", empty_text(report)
    yield from (("not in it", text) for text in report.lacks.sentences())
    if not report.lacks.is_partial:
        yield "not in it", "nothing: every call is metered and priced, every log was read"
    if report.before:
        cost = _cost(report, report.before.totals["cost"])
        yield "compared", f"with the period before, {report.before.period.text()}, just as long, which cost {cost}"
    yield "units", f"cost in {built.currency}, summed exactly and shown to four decimals; {prices_text(report)}"
    yield "days", f"of {report.period.zone}, by the time a call was billed; the tables of the lake have UTC days"
    yield "built", built_text(report)


def empty_text(report: Report) -> str:
    """The spend on calls that hit the output limit with an empty message."""
    totals = report.totals
    if not totals["empty_max_tokens_count"]:
        return "no call hit the output limit with an empty message"
    calls = plural(totals["empty_max_tokens_count"], "call")
    tokens = f"{count(totals['empty_max_tokens_total_tokens'])} tokens"
    cost = _cost(report, totals["empty_max_tokens_cost"])
    return f"{calls} hit the output limit with an empty message: {tokens}, {cost} that bought nothing"


def no_calls_text(report: Report) -> str:
    """That nothing was called, and when something was."""
    last, period = report.built.last_billed_at, report.period
    if last is None:
        return "no calls in this lake"
    return f"no calls in this period; the last was on {last.astimezone(period.tz).date()}"


def prices_text(report: Report) -> str:
    """Which prices count."""
    built = report.built
    checked = f"price table of {built.price_table_checked_on or 'an unknown day'}"
    own = built.override_price_count
    return f"{checked}, after {plural(own, 'card')} of your own" if own else checked


def built_text(report: Report) -> str:
    """What the numbers come from."""
    built = report.built
    return (
        f"from {plural(built.log_count, 'log')}, last event {time_text(built.last_event_at)}, "
        f"last build {time_text(built.built_at)}"
    )


def time_text(at: datetime | None) -> str:
    """An instant to the second, in UTC."""
    return "unknown" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def minute_text(at: datetime | None) -> str:
    """An instant to the minute, in the time zone it is in."""
    return UNKNOWN if at is None else at.strftime("%Y-%m-%d %H:%M")


def name_text(value: object, unknown: str) -> str:
    """A name out of a log, harmless and of bounded length."""
    return unknown if value is None else shortened(plain(str(value)))


def model_text(row: Row) -> str:
    """Provider and model."""
    if row["model"] is None:
        return "(unknown model)" if row["provider"] is None else f"{name_text(row['provider'], '')}/(unknown model)"
    return f"{name_text(row['provider'], '(unknown provider)')}/{name_text(row['model'], '')}"


def turn_text(row: Row) -> str:
    """Number of a turn."""
    return "(no turn)" if row["turn"] is None else str(row["turn"])


def not_in_cost(row: Row) -> int:
    """Calls that the cost of a row lacks."""
    return int(row["unknown_usage_attempt_count"]) + int(row["unpriced_attempt_count"])


def percentile(row: Row, name: str, calls: int) -> str:
    """A percentile; in brackets where it is of few calls."""
    text = duration(row[name])
    return text if row[name] is None or row["measured_count"] >= calls else f"({text})"


def _key(header: str, shown: Callable[[Row], str], rank: int = 0) -> Column:
    return Column(header, shown, rank, is_number=False)


def _number(header: str, name: str, shown: Callable[[Any], str], rank: int) -> Column:
    return Column(header, lambda row: shown(row[name]), rank)


_PROJECT = _key("project", lambda row: name_text(row["project"], "(unknown project)"))
_SESSION = _key("session", lambda row: name_text(row["session_id"], UNKNOWN))
KEY_COLUMNS: dict[str, tuple[Column, ...]] = {
    "day": (_key("day", lambda row: str(row["day"] or "(unknown day)")),),
    "project": (_PROJECT,),
    "model": (_key("model", model_text),),
    "session": (_SESSION, _PROJECT._replace(rank=3), _key("last call", lambda row: minute_text(row["last_at"]), 5)),
    "turn": (
        _SESSION,
        Column("turn", turn_text),
        _key("state", lambda row: name_text(row["state"], UNKNOWN), 2),
        _PROJECT._replace(rank=6),
    ),
    "tool": (_key("tool", lambda row: name_text(row["tool_name"], "(unknown tool)")),),
}
USAGE_COLUMNS = (
    _number("calls", "attempt_count", count, 1),
    _number("input", "input_tokens", count, 6),
    _number("cache read", "cache_read_tokens", count, 6),
    _number("cache write", "cache_write_tokens", count, 9),
    _number("output", "output_tokens", count, 4),
    _number("tokens", "total_tokens", count, 1),
    _number("cached", "cache_hit_ratio", percent, 7),
    _number("cost", "cost", money, 0),
    Column("not in cost", lambda row: count(not_in_cost(row)), 2),
)
TOOL_COLUMNS = (
    _number("calls", "call_count", count, 0),
    _number("errors", "error_count", count, 2),
    _number("error ratio", "error_ratio", percent, 1),
    _number("denied", "denied_count", count, 8),
    _number("open", "open_count", count, 7),
    _number("measured", "measured_count", count, 3),
    _number("p50", "p50_ms", duration, 1),
    _number("p90", "p90_ms", duration, 5),
    Column("p95", lambda row: percentile(row, "p95_ms", P95_CALLS), 1),
    Column("p99", lambda row: percentile(row, "p99_ms", P99_CALLS), 6),
    _number("max", "max_ms", duration, 4),
)


def _totals(report: Report, columns: Sequence[Column]) -> Iterator[Sequence[str]]:
    if report.is_empty and (report.by == "tool" or not report.before):
        return
    key_count = len(KEY_COLUMNS[report.by])
    rows = [("total", report.tool_totals or report.totals)]
    if report.before and report.by != "tool":
        rows.append(("before", report.before.totals))
    for label, row in rows:
        yield [label, *[""] * (key_count - 1), *(column.shown(row) for column in columns[key_count:])]
    if report.before and report.by != "tool":
        changes = _changes(report.totals, report.before.totals)
        yield ["change", *[""] * (key_count - 1), *(changes.get(column.header, "") for column in columns[key_count:])]


def _changes(now: Row, before: Row) -> dict[str, str]:
    """By header, how much a total differs from that of the period before."""
    names = {"calls": "attempt_count", "input": "input_tokens", "cache read": "cache_read_tokens"}
    names |= {"cache write": "cache_write_tokens", "output": "output_tokens", "tokens": "total_tokens", "cost": "cost"}
    return {header: change(now[name], before[name]) for header, name in names.items()}


def _cost(report: Report, amount: Any) -> str:
    return f"{money(amount)} {report.built.currency}"
