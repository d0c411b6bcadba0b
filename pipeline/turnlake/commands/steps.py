"""The steps that `build`, `ingest` and `model` are made of."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turnlake.console import note, progress
from turnlake.errors import LakeError, UsageError
from turnlake.logs.discover import find_logs
from turnlake.logs.lines import MAX_LINE
from turnlake.logs.source import Source, default_source, parse_source
from turnlake.parquet.engine import default_workers
from turnlake.parquet.ingest import Ingested, Options, ingest
from turnlake.parquet.loads import Load, LogRead, append_load
from turnlake.parquet.state import Lake, State
from turnlake.prices.prices import Prices, load_prices, override_file


@dataclass(frozen=True)
class IngestRun:
    """What an ingest did: the state it committed, what it wrote, and the counts of the contract."""

    state: State
    ingested: Ingested
    counts: dict[str, int]

    @property
    def is_partial(self) -> bool:
        """Whether a log was refused, torn, or has lines that gave no row."""
        return any(
            log["verdict"] != "clean" or log.get("is_torn") or log.get("unread_line_count")
            for log in self.ingested.logs
        )


@contextmanager
def building(args: argparse.Namespace) -> Iterator[tuple[Lake, Path]]:
    """The lake, locked and swept, and a work folder that is gone afterwards.

    LakeError when the lake can't be used, or is in use and the user does not want to wait.
    """
    lake = Lake(args.lake)
    with lake.lock(wait=not args.no_wait, on_wait=note):
        lake.check_format()
        lake.sweep()
        work = lake.work_dir()
        try:
            yield lake, work
        finally:
            shutil.rmtree(work)


def sources_of(args: argparse.Namespace) -> list[Source]:
    """The sources named, else the default one. SourceError for one that is not there."""
    return [parse_source(text) for text in args.sources] or [default_source(os.environ)]


def ingest_logs(lake: Lake, work: Path, args: argparse.Namespace) -> IngestRun:
    """Ingest all sources into a new state of the lake, and note the run in its loads."""
    started_at = _now()
    discovery = find_logs(sources_of(args))
    options = Options(args.workers or default_workers(), args.max_line or MAX_LINE)
    with progress("reading logs", len(discovery.logs), quiet=args.quiet) as advance:
        ingested = ingest(discovery, work, options, advance)
    state = lake.commit_state(work)
    counts = {
        "logs_seen": len(ingested.logs),
        "logs_read": sum(log["is_read"] for log in ingested.logs),
        "logs_unchanged": 0,
        "logs_refused": len(ingested.refused),
        "events_added": ingested.event_count,
    }
    read = tuple(LogRead(log["path"], "full") for log in ingested.logs)
    append_load(lake, Load(started_at, _now(), args.command, **counts, read=read))
    return IngestRun(state, ingested, counts)


def prices_of(args: argparse.Namespace) -> Prices:
    """The price cards the options ask for. UsageError where a file of them can't be used."""
    return load_prices(override_file(args.lake, args.prices, os.environ), args.currency)


def publish_models(lake: Lake, state: State, work: Path, args: argparse.Namespace, prices: Prices | None = None) -> Any:
    """Build the database of a state, priced by these cards or the built-in ones, and publish it; what was built."""
    from turnlake.models.build import build_database

    prices = prices or load_prices()
    database = work / "turnlake.duckdb"
    result = build_database(state.raw_files(), database, prices=prices, memory=args.memory, threads=args.threads)
    lake.publish(state, database, prices.inputs)
    return result


def current_state(lake: Lake) -> State:
    """The newest state of a lake. LakeError where nothing was ingested yet."""
    state = lake.current()
    if state is None:
        raise LakeError(f"{lake.path} holds no logs yet. Run `turnlake ingest` or `turnlake build` first.")
    return state


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
