"""`turnlake trace`: from a message to the lines of its log, and from an event to what was made from it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from turnlake.commands.session import HELP_SESSION, note_cut, number, opened_session

if TYPE_CHECKING:
    from turnlake.inspect.session import Session

HELP = "trace an event to its sources, file lines and dependents, or a tool call from end to end"
EXAMPLE = "turnlake trace session-6f2b --seq 33"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds SESSION and what to trace in it."""
    parser.add_argument("session", metavar="SESSION", help=HELP_SESSION)
    parser.add_argument("--seq", type=number, metavar="N", help="this event: what it was made from, what names it")
    parser.add_argument("--call", metavar="ID", help="this tool call: asked for, approved, started, answered")
    parser.add_argument("--turn", type=number, metavar="N", help="every event of this turn; with --call its turn")
    parser.add_argument("--full", action="store_true", help="texts whole, and every chunk in a line of its own")


def run(args: argparse.Namespace) -> int:
    """Traces it. Raises UsageError where nothing, or more than one thing, is to be traced."""
    from turnlake.errors import UsageError

    if args.seq is None and args.call is None and args.turn is None:
        raise UsageError("name what to trace: --seq N, --call ID or --turn N")
    if args.seq is not None and (args.call is not None or args.turn is not None):
        raise UsageError("--seq goes with neither --call nor --turn")
    with opened_session(args) as session:
        if args.seq is not None:
            _event(session, args)
        elif args.call is not None:
            _call(session, args)
        else:
            _turn(session, args)
    return 0


def _event(session: Session, args: argparse.Namespace) -> None:
    from turnlake.console import print_json
    from turnlake.inspect.screen import print_lines
    from turnlake.inspect.trace import trace_event, trace_lines

    trace = trace_event(session, args.seq)
    if args.json:
        print_json(trace.as_json(session))
    else:
        print_lines(trace_lines(session, trace, full=args.full))
        note_cut(args)


def _call(session: Session, args: argparse.Namespace) -> None:
    from turnlake.console import print_json
    from turnlake.inspect.roundtrip import call_lines, call_of, round_trip
    from turnlake.inspect.screen import print_lines

    call = call_of(session, args.call, args.turn)
    events = round_trip(session, call)
    if args.json:
        print_json({"call": call, "events": events})
    else:
        print_lines(call_lines(call, events, full=args.full))
        note_cut(args)


def _turn(session: Session, args: argparse.Namespace) -> None:
    from turnlake.console import print_json, print_table
    from turnlake.inspect.roundtrip import TURN_HEADERS, turn_events, turn_rows

    events = turn_events(session, args.turn)
    if args.json:
        print_json(events)
    else:
        print_table(TURN_HEADERS, turn_rows(events, full=args.full))
