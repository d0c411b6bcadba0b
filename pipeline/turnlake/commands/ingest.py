"""The command `ingest`: logs to Parquet."""

from __future__ import annotations

import argparse

from turnlake.commands.options import engine, whole_number

HELP = "read logs into Parquet event tables"
EXAMPLE = "turnlake ingest ~/.dsh/sessions laptop=/mnt/laptop/.dsh/sessions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command, which `build` shares."""
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="sessions root, project or session folder, log file or export ZIP, or where such a thing is in object "
        "storage: s3://BUCKET/PREFIX, gs://…; NAME=PATH or NAME=URL names a machine "
        "(default: $DSH_HOME/sessions, else ~/.dsh/sessions)",
    )
    parser.add_argument("--full", action="store_true", help="read every log again, not only what is new")
    parser.add_argument(
        "--purge-missing", action="store_true", help="drop logs that are not there any more; else they stay"
    )
    parser.add_argument(
        "--workers",
        type=whole_number,
        metavar="N",
        help="processes that read logs, or batches at once on a cluster (default: one a processor)",
    )
    parser.add_argument(
        "--engine",
        type=engine,
        default="local",
        metavar="ENGINE",
        help="where logs are read: local, or dask://HOST:PORT, a Dask scheduler whose workers see them",
    )
    parser.add_argument(
        "--max-line", type=whole_number, metavar="BYTES", help="longest line that is read (default: 256000000)"
    )
    parser.add_argument("--no-wait", action="store_true", help="exit with 2 when another build runs on the lake")


def run(args: argparse.Namespace) -> int:
    """Ingests and commits the new state. The database stays as it is until `turnlake model`."""
    from turnlake.commands.steps import building, checked_sources, ingest_logs
    from turnlake.console import note, plural, print_json

    sources = checked_sources(args)
    with building(args) as (lake, work):
        done = ingest_logs(lake, work, args, sources)
    counts = done.counts
    code = 1 if args.strict and done.is_partial else 0
    if args.json:
        print_json({**counts, "other_sources": done.others})
    elif not args.quiet:
        from turnlake.reports.summary import other_lines

        print(
            f"{counts['logs_read']:,} of {counts['logs_seen']:,} logs read, {counts['logs_refused']:,} refused, "
            f"{counts['events_added']:,} events"
        )
        for line in other_lines(done.others):
            print(f"also {line}")
        note("`turnlake model` builds the tables of the database from them.")
    elif code:
        note(f"turnlake: partial: {plural(counts['logs_refused'], 'log')} refused, or others not whole")
    return code
