"""`turnlake show`: a session for people, what the model saw of it, or its log's events back."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from turnlake.commands.session import HELP_SESSION, note_cut, number, opened_session

if TYPE_CHECKING:
    from turnlake.inspect.seen import Seen
    from turnlake.inspect.session import Session

HELP = "replay a session: its turns and steps, what the model saw before any event, its log"
EXAMPLE = "turnlake show session-6f2b --turn 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds SESSION and what to show of it."""
    parser.add_argument("session", metavar="SESSION", help=HELP_SESSION)
    parser.add_argument(
        "--turn",
        type=number,
        metavar="N",
        help="only this turn; with --messages what its last request showed the model",
    )
    parser.add_argument("--at", type=number, metavar="SEQ", help="what the model saw before this event")
    parser.add_argument(
        "--messages",
        action="store_true",
        help="what the model saw, message by message; with --json the exact messages as an array",
    )
    parser.add_argument(
        "--header", action="store_true", help="the log's first line, and what requests carry besides messages"
    )
    parser.add_argument("--raw", action="store_true", help="the events of the log as they are stored, a JSON line each")
    parser.add_argument("--full", action="store_true", help="texts whole, and every event")


def run(args: argparse.Namespace) -> int:
    """Shows it; 1 with --strict where the session is not exact or its log is torn."""
    from turnlake.errors import UsageError

    views = [name for name in ("messages", "header", "raw") if getattr(args, name)]
    if len(views) > 1:
        raise UsageError(f"--{views[0]} and --{views[1]} exclude each other")
    if args.turn is not None and args.at is not None:
        raise UsageError("--turn and --at exclude each other")
    if args.raw and (args.turn is not None or args.at is not None):
        raise UsageError("--raw prints the whole log; `turnlake trace SESSION --turn N` prints the events of a turn")
    with opened_session(args) as session:
        _show(session, args)
        facts = session.facts
        return 1 if args.strict and (not facts["is_exact"] or facts["is_torn"]) else 0


def _show(session: Session, args: argparse.Namespace) -> None:
    if args.raw:
        print_raw(session)
    elif args.header:
        print_header(session, args)
    elif args.messages or args.at is not None:
        print_messages(session, args)
    else:
        print_timeline(session, args)


def print_raw(session: Session) -> None:
    """Prints the events of the log from the lake, one JSON object a line, ASCII only."""
    from turnlake.inspect.seen import stored_log

    for event in stored_log(session):
        # json leaves this one control character as it is.
        print(json.dumps(event).replace("\x7f", "\\u007f"))


def print_header(session: Session, args: argparse.Namespace) -> None:
    """Prints the header line of the log, and request header and context in force at the end or before --at."""
    from turnlake.console import print_json
    from turnlake.inspect.request import header_json, header_lines
    from turnlake.inspect.screen import print_lines

    seen = _seen(session, args)
    if args.json:
        print_json(header_json(session, seen))
    else:
        print_lines(header_lines(session, seen, full=args.full))
        note_cut(args)


def print_messages(session: Session, args: argparse.Namespace) -> None:
    """Prints what the model saw; with --messages --json the array of `derive_messages` and nothing else."""
    from turnlake.console import print_json
    from turnlake.inspect.request import request_json, request_lines
    from turnlake.inspect.screen import print_lines

    seen = _seen(session, args)
    if args.json:
        print_json(list(seen.messages) if args.messages else request_json(session, seen))
    else:
        print_lines(request_lines(session, seen, full=args.full))
        note_cut(args)


def print_timeline(session: Session, args: argparse.Namespace) -> None:
    """Prints the session, or one turn of it, in the order of its log."""
    from turnlake.console import note, print_json
    from turnlake.inspect.overview import overview
    from turnlake.inspect.screen import print_lines
    from turnlake.inspect.tables import tables_json, turn_of
    from turnlake.inspect.timeline import Timeline

    if args.turn is not None:
        turn_of(session, args.turn)
    if args.json:
        print_json(tables_json(session, args.turn))
        return
    print_lines(overview(session))
    print_lines(Timeline(session, full=args.full).lines(args.turn))
    note_cut(args)
    if any(turn["state"] != "completed" and args.turn in (None, turn["turn"]) for turn in session.turns):
        note(f"{session.command('diagnose')} tells why a turn stopped", quiet=args.quiet)


def _seen(session: Session, args: argparse.Namespace) -> Seen:
    from turnlake.console import note
    from turnlake.inspect.seen import Seen, checked_seq, projection_of
    from turnlake.inspect.tables import request_before

    upto = None if args.at is None else checked_seq(session, args.at)
    if args.turn is not None:
        upto = request_before(session, args.turn)
    return Seen(projection_of(session, lambda text: note(text, quiet=args.quiet)), upto)
