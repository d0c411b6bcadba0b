"""A report for programs: JSON by a schema with a version, and CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from turnlake.console import as_text, plain
from turnlake.reports.usage.period import Period, instant_text
from turnlake.reports.usage.questions import Row
from turnlake.reports.usage.report import Report

SCHEMA_VERSION = 1
# A spreadsheet takes a cell that starts so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@")


def as_json(report: Report) -> dict[str, Any]:
    """The report as docs/report.schema.json describes it: money and instants as strings, unknown as null."""
    built, before = report.built, report.before
    return {
        "schema_version": SCHEMA_VERSION,
        "by": report.by,
        **_period(report.period),
        "tz": report.period.zone,
        "currency": built.currency,
        "price_table_checked_on": _value(built.price_table_checked_on),
        "override_price_count": built.override_price_count,
        "is_partial": report.lacks.is_partial,
        "totals": _row(report.totals),
        "tool_totals": report.tool_totals and _row(report.tool_totals),
        "rows": [_row({name: row[name] for name in report.columns}) for row in report.rows],
        "lacks": asdict(report.lacks),
        "before": before and {**_period(before.period), "totals": _row(before.totals)},
        "built_from": {
            "log_count": built.log_count,
            "last_event_at": instant_text(built.last_event_at),
            "built_at": instant_text(built.built_at),
        },
    }


def json_text(report: Report) -> str:
    """The JSON document, ASCII only."""
    return json.dumps(as_json(report), indent=2) + "\n"


def csv_text(report: Report) -> str:
    """The rows as CSV with a header line: no totals, all digits, unknown as an empty field."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(report.columns)
    writer.writerows([_cell(row[name]) for name in report.columns] for row in report.rows)
    return file.getvalue()


def _period(period: Period) -> dict[str, str | None]:
    return {"since": instant_text(period.since), "until": instant_text(period.until)}


def _row(row: Row) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: object) -> Any:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, Decimal):
        return as_text(value)
    return value.isoformat() if isinstance(value, date) else value


def _cell(value: object) -> Any:
    if not isinstance(value, str):
        return _value(value)
    text = plain(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
