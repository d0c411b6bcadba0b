"""The command `ingest`: logs to Parquet."""

from __future__ import annotations

import argparse

from turnlake.commands.options import whole_number

HELP = "read logs into Parquet event tables"
EXAMPLE = "turnlake ingest ~/.dsh/sessions laptop=/mnt/laptop/.dsh/sessions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command, which `build` shares."""
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="sessions root, project or session folder, log file or export ZIP; NAME=PATH names a machine "
        "(default: $DSH_HOME/sessions, else ~/.dsh/sessions)",
    )
    parser.add_argument("--full", action="store_true", help="read every log again, not only what is new")
    parser.add_argument(
        "--purge-missing", action="store_true", help="drop logs that are not there any more; else they stay"
    )
    parser.add_argument(
        "--workers", type=whole_number, metavar="N", help="processes that read logs (default: one a processor)"
    )
    parser.add_argument(
        "--max-line", type=whole_number, metavar="BYTES", help="longest line that is read (default: 256000000)"
    )
    parser.add_argument("--no-wait", action="store_true", help="exit with 2 when another build runs on the lake")


def run(args: argparse.Namespace) -> int:
    """Ingests and commits the new state. The database stays as it is until `turnlake model`."""
    from turnlake.commands.steps import building, ingest_logs
    from turnlake.console import note, print_json

    with building(args) as (lake, work):
        done = ingest_logs(lake, work, args)
    counts = done.counts
    if args.json:
        print_json(counts)
    else:
        print(
            f"{counts['logs_read']:,} of {counts['logs_seen']:,} logs read, {counts['logs_refused']:,} refused, "
            f"{counts['events_added']:,} events"
        )
        note("`turnlake model` builds the tables of the database from them.", quiet=args.quiet)
    return 1 if args.strict and done.is_partial else 0
