"""`turnlake model`: builds the SQL models over the current state and publishes them whole."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnlake.models.build import BuildResult
    from turnlake.parquet.state import Lake

HELP = "build the SQL models, check them, publish them whole or not at all"
EXAMPLE = "turnlake model --lake data/lake --memory 500MB --threads 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    parser.add_argument(
        "--memory", metavar="SIZE", type=_size, help="memory DuckDB may use before it spills to disk (500MB)"
    )
    parser.add_argument("--threads", metavar="N", type=_threads, help="threads DuckDB may use (default: one a core)")


def run(args: argparse.Namespace) -> int:
    """Builds and publishes. Raises LakeError without a lake, ModelError where a model or a check fails."""
    from turnlake.console import note, print_json, print_table
    from turnlake.errors import LakeError
    from turnlake.parquet.state import Lake

    lake = Lake(args.lake)
    if lake.check_format() == "new":
        raise LakeError(
            f"there is no lake at {args.lake.absolute()}: run `turnlake ingest` first, or name one by --lake"
        )
    with lake.lock(on_wait=lambda text: note(text, quiet=args.quiet)):
        result = publish_models(lake, args.memory, args.threads)
    if args.json:
        print_json({"rows": result.rows, "check_count": result.check_count})
        return 0
    print_table(("table", "rows"), [(name, count) for name, count in result.rows.items() if name.startswith("marts.")])
    note(f"{len(result.rows)} tables built, {result.check_count} checks held", quiet=args.quiet)
    return 0


def publish_models(lake: Lake, memory: str | None = None, threads: int | None = None) -> BuildResult:
    """Builds the models of the current state and publishes them; the caller holds the lock.

    Raises LakeError where nothing was ever read into the lake, ModelError where a model or a check fails; the
    database published before then stays.
    """
    from turnlake.errors import LakeError
    from turnlake.models.build import build_database

    state = lake.current()
    if state is None:
        raise LakeError(f"nothing was read into {lake.path.absolute()} yet: run `turnlake ingest` first")
    work = lake.work_dir()
    try:
        result = build_database(state.raw_files(), work.absolute() / lake.database.name, memory=memory, threads=threads)
        lake.publish(state, work / lake.database.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return result


def _size(text: str) -> str:
    """A size with its unit, as DuckDB takes it. Raises ArgumentTypeError for anything else."""
    import re

    if not re.fullmatch(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?B)", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 500MB or 2GiB")
    return text


def _threads(text: str) -> int:
    """A whole number from 1. Raises ArgumentTypeError for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of threads")
    return int(text)
