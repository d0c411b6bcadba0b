"""`turnlake diagnose`: why turns stopped, and what that means; without a session which ones are worth a look."""

from __future__ import annotations

import argparse

from turnlake.commands.session import HELP_SESSION, lake_words, number, opened_session

HELP = "tell why turns did not run to their end; without SESSION list the sessions worth a look"
EXAMPLE = "turnlake diagnose session-6f2b"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds SESSION and --turn."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help=f"{HELP_SESSION} (default: the whole lake)")
    parser.add_argument("--turn", type=number, metavar="N", help="only this turn")


def run(args: argparse.Namespace) -> int:
    """Prints it; 1 where a turn did not run to its end, or the harness would not take a log whole."""
    from turnlake.errors import UsageError

    if args.session is not None:
        return _one(args)
    if args.turn is not None:
        raise UsageError("--turn wants a SESSION")
    return _all(args)


def _one(args: argparse.Namespace) -> int:
    from turnlake.console import print_json
    from turnlake.inspect.diagnosis import diagnose
    from turnlake.inspect.runbook import is_log_fine, session_json, session_lines
    from turnlake.inspect.screen import print_lines
    from turnlake.inspect.tables import turn_of

    with opened_session(args) as session:
        if args.turn is not None:
            turn_of(session, args.turn)
        found = [one for one in diagnose(session) if args.turn in (None, one.turn)]
        if args.json:
            print_json(session_json(session, found))
        else:
            print_lines(session_lines(session, found, args.turn))
        return 1 if found or not is_log_fine(session.facts) else 0


def _all(args: argparse.Namespace) -> int:
    import shlex

    from turnlake.api import connect
    from turnlake.console import note, print_json, print_table
    from turnlake.inspect.queries import report_of
    from turnlake.inspect.runbook import LIST_HEADERS, list_rows

    with connect(args.lake) as db:
        found = report_of(db, "unfinished_sessions")
        [(unread,)] = db.execute("select count(*) from raw.logs where is_read is not true").fetchall()
    if args.json:
        print_json(found)
    elif found:
        print_table(LIST_HEADERS, list_rows(found))
        more = shlex.join(["turnlake", "diagnose", found[0]["session_id"], *lake_words(args)])
        note(f"why and what it means: {more}", quiet=args.quiet)
    else:
        print("every turn of every session ran to its end")
    if unread:
        logs, are = ("1 log could", "is") if unread == 1 else (f"{unread:,} logs could", "are")
        note(f"{logs} not be read at all and {are} not looked at: `turnlake doctor`", quiet=args.quiet)
    return 1 if found else 0
