"""`turnlake report`: what was used and what it cost."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from turnlake.commands.options import seconds, span
from turnlake.console import note
from turnlake.errors import UsageError
from turnlake.period import parse_since, time_zone

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from turnlake.reports.usage.period import Period
    from turnlake.reports.usage.report import Report

HELP = "show usage and cost of a period, and what the totals lack"
EXAMPLE = """turnlake report --by model --since 7d --tz Asia/Shanghai
  turnlake report --since 2026-09-01 --until 2026-10-01 --out september.html"""

BY = ("day", "project", "model", "session", "turn", "tool")
FORMATS = ("table", "markdown", "html", "json", "csv")
# What a file is named for -> the format it gets unless --format says otherwise.
SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".json": "json",
    ".csv": "csv",
    ".txt": "table",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    parser.add_argument("--by", choices=BY, default="day", help="what a row is (default: day)")
    parser.add_argument(
        "--since", metavar="WHEN", help="first instant: a date, a date and time, 7d (and today), 24h (default: all)"
    )
    parser.add_argument("--until", metavar="WHEN", help="first instant that no longer counts (default: none)")
    parser.add_argument(
        "--tz", metavar="ZONE", type=time_zone, default=UTC, help="time zone of days, dates and times (default: UTC)"
    )
    parser.add_argument("--compare", action="store_true", help="also the totals of the period before, equally long")
    parser.add_argument("--format", choices=FORMATS, help="default: by the name of --out, else table")
    parser.add_argument("--out", metavar="FILE", type=Path, help="file to write, whole or not at all (default: stdout)")
    parser.add_argument(
        "--hash-paths", action="store_true", help="paths of projects as hashes, by a key in your config folder"
    )
    parser.add_argument(
        "--max-age", metavar="TIME", type=seconds, help="exit with 1 where the last build is older, such as 26h"
    )


def run(args: argparse.Namespace) -> int:
    """Writes the report; 1 where the lake is older than --max-age, and with --strict where a total is partial.

    Raises UsageError for options that make no sense, LakeError without a lake.
    """
    from turnlake.api import connect
    from turnlake.reports.usage.report import usage_report

    format_ = format_of(args)
    now = datetime.now(UTC)
    period, hide = period_of(args, now), hider(args)
    with connect(args.lake) as db:
        report = usage_report(db, args.by, period, hide, compare=args.compare)
        text = written(db, report, format_, hide) if format_ != "table" else None
    deliver(report, text, args.out)
    if format_ == "csv":
        for lack in report.lacks.sentences():
            note(f"not in it: {lack}", quiet=args.quiet)
    is_old = args.max_age is not None and is_older(report, now, args.max_age)
    return 1 if is_old or (args.strict and report.lacks.is_partial) else 0


def format_of(args: argparse.Namespace) -> str:
    """The format asked for. Raises UsageError where two are, or the name of the file tells none."""
    if args.json and args.format not in (None, "json"):
        raise UsageError(f"--json and --format {args.format} exclude each other")
    if args.json:
        return "json"
    # A name without a suffix says nothing of a format: a pipe, a device, a file such as `report`.
    if args.format or args.out is None or not args.out.suffix:
        return str(args.format or "table")
    suffix = args.out.suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise UsageError(f"--out {args.out}: no format is known by the name of {suffix}. Use {known}, or say --format")
    return SUFFIXES[suffix]


def period_of(args: argparse.Namespace, now: datetime) -> Period:
    """The period asked for; one to compare ends now where nothing else is said. Raises UsageError."""
    from turnlake.reports.usage.period import Period

    since = parse_since(args.since, args.tz, now) if args.since else None
    until = parse_since(args.until, args.tz, now, "--until") if args.until else None
    if args.compare and since is None:
        raise UsageError("--compare wants --since: all of time has no time before it")
    return Period(since, now if args.compare and until is None else until, args.tz)


def hider(args: argparse.Namespace) -> Callable[[str], str]:
    """What makes of a path what is shown of it."""
    if not args.hash_paths:
        return str
    from turnlake.hashing import load_hasher

    return load_hasher(os.environ).hashed


def written(db: DuckDBPyConnection, report: Report, format_: str, hide: Callable[[str], str]) -> str:
    """The report in a format other than a table."""
    if format_ == "html":
        from turnlake.reports.usage.page import html

        return html(db, report, hide)
    if format_ == "markdown":
        from turnlake.reports.usage.sheet import sheet_of
        from turnlake.reports.usage.text import markdown

        return markdown(sheet_of(report))
    from turnlake.reports.usage.machine import csv_text, json_text

    return json_text(report) if format_ == "json" else csv_text(report)


def deliver(report: Report, text: str | None, out: Path | None) -> None:
    """Prints the text, a table where there is none; or writes it to the file. Raises UsageError where it can't."""
    from turnlake.reports.usage.sheet import sheet_of
    from turnlake.reports.usage.text import print_text, table_text

    if out is None and text is None:
        print_text(sheet_of(report))
    elif out is None:
        sys.stdout.write(text or "")
    else:
        try:
            replace_file(out, table_text(sheet_of(report)) if text is None else text)
        except OSError as error:
            raise UsageError(f"--out {out} can't be written: {error.strerror}") from error


def replace_file(path: Path, text: str) -> None:
    """Writes the file whole or not at all, readable to whom the user's umask says. Raises OSError."""
    from turnlake.files import write_whole

    target = path.resolve()
    if target.exists() and not target.is_file():
        # A device or a pipe is written to; a folder says that it is one.
        target.write_text(text, encoding="utf-8")
        return
    write_whole(target, text.encode())
    umask = os.umask(0o077)
    os.umask(umask)
    target.chmod(0o666 & ~umask)


def is_older(report: Report, now: datetime, max_age: float) -> bool:
    """Whether the last build is longer ago than that, in seconds, or at an unknown time; says so on stderr."""
    built_at = report.built.built_at
    if built_at is not None and now - built_at <= timedelta(seconds=max_age):
        return False
    from turnlake.reports.usage.sheet import time_text

    note(
        f"turnlake: the last build, {time_text(built_at)}, is more than {span(max_age)} ago: "
        "the report is of then; run `turnlake build`"
    )
    return True
