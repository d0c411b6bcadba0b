"""`turnlake alerts`: what somebody should look at, on stdout and to a webhook."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from turnlake.period import parse_since, time_zone

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from turnlake.alerts.memory import Memory
    from turnlake.alerts.queries import AlertQuery
    from turnlake.alerts.run import Outcome
    from turnlake.alerts.webhook import Webhook

HELP = "say what somebody should look at: failed, cut off and lost turns, cost, tools, unreadable logs"
EXAMPLE = "turnlake alerts --since 24h --new-only --fail-on error"

_FIRED, _BROKEN = 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    from turnlake.alerts.run import SEVERITIES

    parser.add_argument(
        "--dir",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder of your own alerts, *.sql; one named like a built-in alert replaces it; may be given again",
    )
    parser.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="this alert and no other; may be given again"
    )
    parser.add_argument(
        "--since",
        metavar="WHEN",
        help="only what happened since: 2026-11-01, 2026-11-01T08:00Z, 24h, 7d; what has no time is always told",
    )
    parser.add_argument(
        "--tz", metavar="ZONE", type=time_zone, default=UTC, help="time zone of dates and times (default: UTC)"
    )
    parser.add_argument(
        "--new-only", action="store_true", help="only what was not reported yet to the same place, stdout or webhook"
    )
    parser.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        choices=SEVERITIES,
        default=SEVERITIES[-1],
        help="exit with 1 only for this severity and graver ones: error, warning, advisory (default: advisory)",
    )
    parser.add_argument(
        "--webhook",
        metavar="URL",
        help="post what fired as one JSON document with a text for Slack; @FILE reads the URL from a file",
    )


def run(args: argparse.Namespace) -> int:
    """Asks the alerts, prints and posts what fired; 1 where something did, 2 where an alert is broken.

    Raises UsageError for options without sense, LakeError without a lake, DeliveryError (3) for a failing webhook.
    """
    from turnlake.alerts.queries import find_queries
    from turnlake.alerts.webhook import parse_webhook

    since = parse_since(args.since, args.tz, datetime.now(UTC)) if args.since else None
    webhook = parse_webhook(args.webhook) if args.webhook else None
    queries = find_queries(args.dir, args.only)
    with _memory(args, webhook) as memory:
        outcome = _ask(queries, args.lake)
        told = outcome.since(since)
        if memory:
            told = memory.new(told)
        _print(told, args)
        if webhook:
            _post(told, webhook, args)
        if memory:
            memory.report(outcome, told)
    if told.broken:
        return _BROKEN
    return _FIRED if told.is_as_grave_as(args.fail_on) else 0


def _memory(args: argparse.Namespace, webhook: Webhook | None) -> AbstractContextManager[Memory | None]:
    if not args.new_only:
        return nullcontext()
    from turnlake.alerts.memory import remembering
    from turnlake.api import connect
    from turnlake.console import note

    # Before the lock, which would make a file where there is no lake.
    connect(args.lake).close()
    destination = webhook.name if webhook else "stdout"
    return remembering(args.lake, destination, lambda line: note(line, quiet=args.quiet))


def _ask(queries: Iterable[AlertQuery], lake: Path) -> Outcome:
    from turnlake.alerts.run import run_alerts
    from turnlake.api import connect

    with connect(lake) as db:
        return run_alerts(queries, db)


def _print(told: Outcome, args: argparse.Namespace) -> None:
    from turnlake.alerts.document import as_json, in_short, shown
    from turnlake.console import note, print_json, print_table

    if args.json:
        print_json(as_json(told, args.tz))
    elif told.fired:
        rows = [
            (thing.severity, thing.alert, shown(thing.at, args.tz), thing.session_id, thing.turn, thing.message)
            for thing in told.fired
        ]
        print_table(("severity", "alert", "at", "session", "turn", "message"), rows)
    # What can't be printed was not reported.
    sys.stdout.flush()
    for reason in told.broken.values():
        note(f"turnlake: broken alert {reason}")
    note(in_short(told, are_new=args.new_only), quiet=args.quiet)


def _post(told: Outcome, webhook: Webhook, args: argparse.Namespace) -> None:
    """Posts what there is to tell. A failure outranks all else: it must not look like a report that was made."""
    from turnlake.alerts.document import webhook_document
    from turnlake.alerts.webhook import post
    from turnlake.console import note

    if not (told.fired or told.broken):
        return
    post(webhook, webhook_document(told, args.tz), lambda line: note(line, quiet=args.quiet))
    note(f"{webhook.shown} took it", quiet=args.quiet)
