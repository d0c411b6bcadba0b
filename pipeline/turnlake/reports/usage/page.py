"""A report as one HTML file that needs nothing else: no script, no network, charts inside."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from turnlake import __version__
from turnlake.console import UNKNOWN, plain, plural
from turnlake.findings import CODES
from turnlake.reports.usage.bars import Figure, axis_of
from turnlake.reports.usage.figures import (
    cached_figure,
    context_figure,
    cost_figure,
    ends_figure,
    latency_figure,
    tokens_figure,
)
from turnlake.reports.usage.numbers import change, count, money, percent
from turnlake.reports.usage.questions import Row, ask
from turnlake.reports.usage.report import KEYS, Report, tools_of, usage_by
from turnlake.reports.usage.sheet import (
    KEY_COLUMNS,
    TOOL_COLUMNS,
    USAGE_COLUMNS,
    Column,
    empty_text,
    name_text,
    no_calls_text,
    sheet_of,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from jinja2 import Template

FOLDER = Path(__file__).resolve().parent
# A page of ten thousand rows is no page; the table, CSV and JSON have them all.
MOST_ROWS = 200
MOST_TOP = 15
LONGEST_COMMAND = 200
# The charts along days.
DAILY = ("Cost by day and model", "How turns ended", "Tokens by kind", "Cache hits")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Card:
    """A number at the top of the page; `more` says what it lacks or how it changed."""

    name: str
    number: str
    more: str


@dataclass(frozen=True)
class Grid:
    """A table of the page. `headers` are pairs of a name and the class of its cells."""

    title: str
    caption: str
    headers: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]
    totals: Sequence[Sequence[str]] = ()


def html(db: DuckDBPyConnection, report: Report, hide: Callable[[str], str]) -> str:
    """The whole page; of what there is nothing to show only the titles. Raises UsageError as the queries do."""
    drawings, tables = figures(db, report, hide), [main_grid(report), *grids(db, report, hide)]
    parts: list[Figure | Grid] = [*drawings, *tables]
    return _template().render(
        report=report,
        sheet=sheet_of(report),
        cards=[] if report.is_empty and not report.before else cards(report),
        no_calls=no_calls_text(report) if report.is_empty else None,
        empty=empty_text(report) if report.totals["empty_max_tokens_count"] else None,
        lacks=[coded(text) for text in report.lacks.sentences()],
        figures=[figure for figure in drawings if figure.wide],
        grids=[table for table in tables if table.rows],
        nothing=[part.title for part in parts if not (part.wide if isinstance(part, Figure) else part.rows)],
        style=_read("page.css"),
        version=__version__,
    )


def coded(text: str) -> Markup:
    """The text with what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def cards(report: Report) -> list[Card]:
    """The totals of the period."""
    totals, before = report.totals, report.before.totals if report.before else None
    lacking = totals["unknown_usage_attempt_count"] + totals["unpriced_attempt_count"]
    unknown = totals["unknown_usage_attempt_count"]

    def card(name: str, number: str, measure: str, lack: str = "") -> Card:
        grown = f"{change(totals[measure], before[measure])} on the period before" if before else ""
        return Card(name, number, "; ".join(filter(None, (lack, grown))))

    ratio, thought = totals["cache_hit_ratio"], totals["reasoning_tokens"]
    cached = "not told by any call" if ratio is None else f"{percent(ratio)} of the prompt from the cache"
    reasoning = "" if thought is None else f"{count(thought)} of them reasoning"
    return [
        card(
            f"Cost, {report.built.currency}",
            money(totals["cost"]),
            "cost",
            f"lacks {plural(lacking, 'call')}" if lacking else "",
        ),
        card(
            "Tokens",
            count(totals["total_tokens"]),
            "total_tokens",
            f"lacks {plural(unknown, 'call')}" if unknown else "",
        ),
        card("Calls", count(totals["attempt_count"]), "attempt_count"),
        card(
            "Turns with calls",
            count(totals["turn_count"]),
            "turn_count",
            f"in {plural(totals['session_count'], 'session')}",
        ),
        Card("Output tokens", count(totals["output_tokens"]), reasoning),
        Card("Cached tokens", count(totals["cache_read_tokens"]), cached),
    ]


def main_grid(report: Report) -> Grid:
    """The table that the report was asked for."""
    sheet = sheet_of(report)
    more = len(sheet.rows) - MOST_ROWS
    caption = f"The first {MOST_ROWS} rows; {plural(more, 'row')} more are in the totals." if more > 0 else ""
    order = sorted(range(len(sheet.columns)), key=lambda index: _rank_on_page(sheet.columns[index]))

    def ordered(rows: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[row[index] for index in order] for row in rows]

    headers = _headers([sheet.columns[index] for index in order])
    return Grid(f"By {report.by}", caption, headers, ordered(sheet.rows[:MOST_ROWS]), ordered(sheet.totals))


def figures(db: DuckDBPyConnection, report: Report, hide: Callable[[str], str]) -> list[Figure]:
    """The charts. Those along days share one axis, so that a day stands in one place in all of them."""
    period = report.period
    by_model = usage_by(db, period, ("day", "provider", "model"), hide)
    by_day = usage_by(db, period, ("day",), hide)
    ends = ask(db, "turn_ends", period)
    found = [Figure(title, "") for title in DAILY]
    if days := [row["day"] for row in (*by_day, *ends) if row["day"]]:
        axis = axis_of(days, period)
        found = [cost_figure(by_model, axis, report.built.currency), ends_figure(ends, axis)]
        found += [tokens_figure(by_day, axis), cached_figure(by_day, axis)]
    tools, _ = tools_of(db, period)
    return [*found, latency_figure(tools), context_figure(ask(db, "context", period))]


def grids(db: DuckDBPyConnection, report: Report, hide: Callable[[str], str]) -> list[Grid]:
    """The tables below the charts."""
    period = report.period
    tools, total = tools_of(db, period)
    tool_columns = [*KEY_COLUMNS["tool"], *TOOL_COLUMNS]
    shown_total = ["total", *(column.shown(total) for column in TOOL_COLUMNS)]
    return [
        Grid(
            "Tools",
            "Times of calls that have ended, waits for people left out. In brackets: percentiles of too few calls.",
            _headers(tool_columns),
            [[column.shown(row) for column in tool_columns] for row in tools[:MOST_ROWS]],
            [shown_total],
        ),
        _top("Sessions", "session", usage_by(db, period, KEYS["session"], hide)),
        _turns(usage_by(db, period, KEYS["turn"], hide)),
        findings_grid(ask(db, "findings", period)),
    ]


def findings_grid(rows: Sequence[Row]) -> Grid:
    """What was found about logs."""
    cells = [
        [
            plain(row["code"]),
            row["severity"],
            count(row["finding_count"]),
            count(row["log_count"]),
            CODES[row["code"]].about if row["code"] in CODES else UNKNOWN,
        ]
        for row in rows
    ]
    headers = [("code", ""), ("severity", ""), ("findings", "number"), ("logs", "number"), ("what it means", "")]
    return Grid("Findings", "In all logs of the lake, whatever the period.", headers, cells)


def show_command(row: Row) -> str:
    """The command that shows the session or turn of a row: safe to paste, whatever the id is."""
    session = ["--", row["session_id"]] if row["session_id"].startswith("-") else [row["session_id"]]
    turn = ["--turn", str(row["turn"])] if row["turn"] is not None else []
    command = shlex.join(["turnlake", "show", *turn, *session])
    # Escaped or cut it would be the command for another session.
    is_whole = plain(command) == command and len(command) <= LONGEST_COMMAND
    return command if is_whole else f"(session {name_text(row['session_id'], UNKNOWN)})"


def _turns(rows: Sequence[Row]) -> Grid:
    """The costliest turns. What was called outside any is none."""
    turns = [row for row in rows if row["turn"] is not None]
    grid = _top("Turns", "turn", turns)
    return replace(grid, caption=f"{grid.caption} Calls outside any turn are not in it.") if turns != rows else grid


def _rank_on_page(column: Column) -> int:
    """The key first, then the cost: on a phone what stands further right is out of sight."""
    return 2 if column.is_number and column.header not in ("turn", "cost") else int(column.header == "cost")


def _top(title: str, by: str, rows: Sequence[Row]) -> Grid:
    usage = (column for column in USAGE_COLUMNS if column.rank < 5)
    columns = sorted([*KEY_COLUMNS[by][1:], *usage], key=_rank_on_page)
    cells = [[*(column.shown(row) for column in columns), show_command(row)] for row in rows[:MOST_TOP]]
    few = f"The costliest {MOST_TOP} of {plural(len(rows), by)} with calls."
    caption = few if len(rows) > MOST_TOP else "The costliest first."
    caption += " The commands read the default lake: add --lake for another."
    return Grid(title, caption, [*_headers(columns), ("to see it", "code")], cells)


def _headers(columns: Sequence[Column]) -> list[tuple[str, str]]:
    return [(column.header, "number" if column.is_number else "") for column in columns]


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read("page.html.j2"))


@cache
def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
