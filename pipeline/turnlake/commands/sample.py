"""The command `sample`: writes synthetic but valid sessions."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

HELP = "write synthetic but valid sessions of any format version and size"
EXAMPLE = "turnlake sample /tmp/sessions --sessions 50 --mb 20 --version 4"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="sessions root to write; new or empty")
    parser.add_argument("--sessions", type=int, default=20, metavar="N", help="number of logs (default: 20)")
    parser.add_argument("--mb", type=float, default=5.0, metavar="M", help="megabytes of lines in all (default: 5)")
    parser.add_argument("--version", type=int, default=4, metavar="V", help="format version, 0 to 4 (default: 4)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="another seed gives other sessions")
    parser.add_argument("--raw", action="store_true", help="plain JSON lines instead of zstd")


def run(args: argparse.Namespace) -> int:
    """Write the sample and print what it holds."""
    from turnlake.sample.write import write_sample

    summary = write_sample(
        args.directory,
        sessions=args.sessions,
        megabytes=args.mb,
        version=args.version,
        seed=args.seed,
        raw=args.raw,
    )
    if args.json:
        print(json.dumps(asdict(summary)))
    elif not args.quiet:
        print(
            f"{args.directory}: {summary.sessions:,} sessions, {summary.lines:,} lines, {summary.events:,} events, "
            f"{summary.chunks:,} chunks, {summary.decoded_bytes / 1e6:,.1f} MB, "
            f"{summary.stored_bytes / 1e6:,.1f} MB stored"
        )
    return 0
