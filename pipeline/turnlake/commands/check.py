"""The command `check`: reads the raw logs again and compares what they give with what the tables say."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, get_args

from turnlake.commands.options import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from turnlake.check.fresh import Fresh
    from turnlake.check.outcome import Check
    from turnlake.lake.state import Lake, State

HELP = "derive messages, calls and closers again from the raw logs and compare them with the tables"
EXAMPLE = "turnlake check --lake data/lake --workers 2"
# More than this are counted, not shown.
SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help="sessions to check, by id or the beginning of one (default: all)"
    )
    parser.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="where the logs of a machine are that a build named; may be given several times",
    )
    parser.add_argument(
        "--workers", type=whole_number, metavar="N", help="processes that read logs (default: one a processor)"
    )
    parser.add_argument("--no-wait", action="store_true", help="exit with 2 when a build runs on the lake")


def run(args: argparse.Namespace) -> int:
    """Checks the published database, and publishes it with the outcome where that is news.

    Raises LakeError where there is none, UsageError for a session that is not in it.
    """
    from turnlake.api import connect
    from turnlake.commands.steps import building
    from turnlake.errors import LakeError

    connect(args.lake).close()  # tells what is wrong with the lake before its folder is made by the lock
    with building(args) as (lake, work):
        state = lake.published_state()
        if state is None:
            raise LakeError(f"{lake.path} holds no database of its own: run `turnlake build --lake {lake.path}`")
        checks, fresh = _checks(lake, state, work, args)
        _publish(lake, state, work, checks, is_whole=not args.sessions)
    code = 0 if all(check.is_fine for check in checks) and not (args.strict and _lacks(checks, fresh)) else 1
    if args.json:
        from turnlake.console import print_json

        print_json(_as_json(checks, fresh))
    elif code or not args.quiet:
        _print(checks, fresh, args)
    return code


def _checks(lake: Lake, state: State, work: Path, args: argparse.Namespace) -> tuple[list[Check], Fresh]:
    from turnlake.check.database import reading, sessions_of
    from turnlake.check.fresh import counting_logs, fresh_proofs, proved_by_fresh
    from turnlake.check.share import check_shared, shares_of
    from turnlake.console import progress
    from turnlake.lake.workers import default_workers
    from turnlake.sources.source import parse_source

    wanted, workers = _wanted(args), args.workers or default_workers()
    rows = [row for row in counting_logs(state) if wanted is None or row["session_id"] in wanted]
    sources = [parse_source(text) for text in args.source]
    # The processes are forked before DuckDB has threads here, or once it has none any more.
    with progress("reading logs", len(rows), quiet=args.quiet) as advance:
        fresh = fresh_proofs(state, rows, sources, workers, advance)
    with reading(lake.database, work) as db:
        sessions = proved_by_fresh(sessions_of(db, wanted), fresh)
    # Reading all content a second time, as the messages tell it, costs as much as the rest of comparing.
    shares = shares_of(sessions, state, workers)
    return check_shared(lake.database, shares, work, workers, is_thorough=wanted is not None), fresh


def _wanted(args: argparse.Namespace) -> set[str] | None:
    """The sessions asked for; None for all."""
    if not args.sessions:
        return None
    from turnlake.api import connect
    from turnlake.inspect.find import find_session

    with connect(args.lake) as db:
        return {find_session(db, text) for text in args.sessions}


def _publish(lake: Lake, state: State, work: Path, checks: Sequence[Check], *, is_whole: bool) -> None:
    """Put a copy of the database with these checks in place of it; nothing where they are there already."""
    from turnlake.api import connect
    from turnlake.check.database import store, stored_checks, written
    from turnlake.commands.steps import CHECKED

    with connect(lake.path) as db:
        stored = {check.session_id: check for check in stored_checks(db)}
    news = [check for check in checks if stored.get(check.session_id) != check]
    published = lake.published()
    if not news or published is None:
        return
    database = work / "turnlake.duckdb"
    shutil.copyfile(lake.database, database)
    with written(database) as db:
        store(db, news)
    lake.publish(state, database, {**published.inputs, CHECKED: "yes"} if is_whole else published.inputs)


def _lacks(checks: Sequence[Check], fresh: Fresh) -> bool:
    return bool(fresh.left_out) or any(check.status != "match" for check in checks)


def _print(checks: Sequence[Check], fresh: Fresh, args: argparse.Namespace) -> None:
    from turnlake.console import note, plain, plural, print_table

    counts = Counter(check.status for check in checks)
    told = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in sorted(counts.items()))
    prefixes = sum(check.checkpoint_count or 0 for check in checks)
    print(f"{plural(len(checks), 'session')}, {plural(prefixes, 'prefix', 'prefixes')}: {told or 'nothing to check'}")
    odd = [check for check in checks if check.status != "match" or check.error_count]
    odd.sort(key=lambda check: (check.is_fine, check.status, check.session_id))
    if odd:
        rows = [(plain(one.session_id), one.status, one.reason, one.error_count) for one in odd[:SHOWN]]
        print_table(("session", "status", "reason", "errors"), rows)
    if len(odd) > SHOWN:
        note(f"and {len(odd) - SHOWN:,} more: see marts.projection_checks", quiet=args.quiet)
    for reason, count in sorted(fresh.left_out.items()):
        note(f"{count:,} logs were compared by what they gave when they were read: they are {reason}")


def _as_json(checks: Sequence[Check], fresh: Fresh) -> dict[str, object]:
    from turnlake.check.outcome import Status

    counts = Counter(check.status for check in checks)
    return {
        "sessions": {"all": len(checks), **{status: counts[status] for status in get_args(Status)}},
        "prefixes": sum(check.checkpoint_count or 0 for check in checks),
        "sessions_with_errors": sum(bool(check.error_count) for check in checks),
        "logs_not_read_again": dict(sorted(fresh.left_out.items())),
        "is_fine": all(check.is_fine for check in checks),
        "checks": [asdict(check) for check in checks if check.status != "match" or check.error_count],
    }
