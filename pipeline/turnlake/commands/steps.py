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
from typing import TYPE_CHECKING

from turnlake.console import note, progress
from turnlake.errors import LakeError
from turnlake.logs.discover import find_logs
from turnlake.logs.lines import MAX_LINE
from turnlake.logs.source import Source, default_source, parse_source
from turnlake.models.folder import models_digest
from turnlake.parquet.engine import default_workers
from turnlake.parquet.loads import Load, LogRead, append_load
from turnlake.parquet.plan import Options, manifest_of, plan_ingest
from turnlake.parquet.state import Lake, State
from turnlake.parquet.tables import LAKE_FORMAT, PARSER_VERSION
from turnlake.prices.prices import Prices, load_prices, override_file

if TYPE_CHECKING:
    from turnlake.models.build import BuildResult


@dataclass(frozen=True)
class IngestRun:
    """What an ingest did: the state that is current now, and the counts of the contract.

    `is_partial` says whether a log was refused, torn, or has lines that gave no row; `is_news` is False where
    nothing had changed.
    """

    state: State
    counts: dict[str, int]
    is_partial: bool
    is_news: bool


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
    """Read what is new into a new state of the lake, and note the run in its loads.

    Where nothing is new the state stays the one there is; then no log and no Parquet file is opened.
    """
    started_at = _now()
    discovery = find_logs(sources_of(args))
    is_older = lake.check_format() == "rebuild"
    workers = args.workers or default_workers()
    options = Options(workers, args.max_line or MAX_LINE, args.full, args.purge_missing, is_older)
    before = lake.current()
    plan = plan_ingest(discovery, before, options)
    if before is not None and not plan.is_news:
        known = plan.before
        seen = sum(known.logs[log_id].is_log for log_id in plan.unchanged)
        counts = _counts(seen, 0, seen, known.refused_count, 0)
        append_load(lake, Load(started_at, _now(), args.command, **counts, read=()))
        return IngestRun(before, counts, known.is_partial, is_news=False)
    # Arrow is loaded only now, and before worker processes are forked: each would load it again.
    from turnlake.parquet.ingest import ingest

    with progress("reading logs", len(plan.read) + len(plan.replayed), quiet=args.quiet) as advance:
        ingested = ingest(discovery, work, options, advance, before, plan)
    state = lake.commit_state(work)
    unchanged = sum(log["log_id"] in plan.unchanged for log in ingested.logs)
    seen, read = unchanged + len(ingested.read), len(ingested.read)
    counts = _counts(seen, read, unchanged, ingested.refused_count, ingested.events_added)
    reads = tuple(LogRead(path, why) for path, why in ingested.read)
    append_load(lake, Load(started_at, _now(), args.command, **counts, read=reads))
    return IngestRun(state, counts, ingested.is_partial, is_news=True)


def _counts(seen: int, read: int, unchanged: int, refused: int, events_added: int) -> dict[str, int]:
    return {
        "logs_seen": seen,
        "logs_read": read,
        "logs_unchanged": unchanged,
        "logs_refused": refused,
        "events_added": events_added,
    }


def prices_of(args: argparse.Namespace) -> Prices:
    """The price cards the options ask for. UsageError where a file of them can't be used."""
    return load_prices(override_file(args.lake, args.prices, os.environ), args.currency)


def is_published(lake: Lake, state: State, prices: Prices) -> bool:
    """Whether the database in place was built from that state, these prices and the models of now."""
    published = lake.published()
    return published is not None and (published.state_id, dict(published.inputs)) == (state.id, _inputs(prices))


def publish_models(lake: Lake, state: State, work: Path, args: argparse.Namespace, prices: Prices) -> BuildResult:
    """Build the database of a state, priced by these cards, and publish it; what was built."""
    from turnlake.models.build import build_database

    database = work / "turnlake.duckdb"
    result = build_database(state.raw_files(), database, prices=prices, memory=args.memory, threads=args.threads)
    lake.publish(state, database, _inputs(prices))
    return result


def _inputs(prices: Prices) -> dict[str, str]:
    """What else than a state decides what is in the database."""
    return {**prices.inputs, "models": models_digest(), "lake_format": str(LAKE_FORMAT)}


def current_state(lake: Lake) -> State:
    """The newest state of a lake. LakeError where nothing was ingested yet."""
    state = lake.current()
    if state is None:
        raise LakeError(f"{lake.path} holds no logs yet. Run `turnlake ingest` or `turnlake build` first.")
    if manifest_of(state).parser_version != PARSER_VERSION:
        raise LakeError(f"{lake.path} was read by another version of turnlake. Run `turnlake build` to read it again.")
    return state


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
