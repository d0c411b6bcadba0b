"""`turnlake doctor`: where logs are looked for, what is found, and why a number may be zero."""

from __future__ import annotations

import argparse
import os

HELP = "shows which places are looked at, what is found there, and why a number may be zero"
EXAMPLE = "turnlake doctor ~/.dsh/sessions --lake data/lake"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds SOURCE."""
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="sessions root, project or session folder, log file or export ZIP; NAME=PATH names a machine "
        "(default: $DSH_HOME/sessions, else ~/.dsh/sessions)",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the examination; 1 where something needs a hand (with --strict: also where a number is partial)."""
    from turnlake.console import print_json
    from turnlake.reports.doctor import as_json, examine, print_text
    from turnlake.sources.source import parse_source

    examination = examine([parse_source(text) for text in args.sources], os.environ, args.lake)
    if args.json:
        print_json(as_json(examination))
    else:
        print_text(examination)
    return examination.exit_code(args.strict)
