"""The steps that `build`, `ingest` and `model` are made of."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnlake.console import note, plural, progress
from turnlake.errors import LakeError, SourceError, TurnlakeError
from turnlake.lake.files import named, require_whole
from turnlake.lake.loads import Load, LogRead, append_load
from turnlake.lake.manifest import Manifest, manifest_of
from turnlake.lake.plan import Options, plan_ingest
from turnlake.lake.state import Lake, State
from turnlake.lake.workers import default_workers
from turnlake.rows.tables import LAKE_FORMAT, PARSER_VERSION
from turnlake.sources.discover import Discovery, find_logs
from turnlake.sources.lines import MAX_LINE
from turnlake.sources.source import Source, default_source, merge_sources, parse_source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from turnlake.models.build import BuildResult
    from turnlake.prices.prices import Prices


# Of what a database was built with: whether its sessions were compared with what their logs gave.
CHECKED = "checked"


@dataclass(frozen=True)
class IngestRun:
    """What an ingest did: the state that is current now, and the counts of the contract.

    `is_partial` says whether a log was refused, torn, lost, or has lines that gave no row, or a source had no log at
    all; `is_news` is False where nothing had changed, `is_repaired` True where files of the state before were damaged.
    `others` are the sources that only earlier runs named, and how many logs of each the lake holds.
    """

    state: State
    counts: dict[str, int]
    is_partial: bool
    is_news: bool
    is_repaired: bool = False
    others: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def building(args: argparse.Namespace) -> Iterator[tuple[Lake, Path]]:
    """The lake, locked and swept, and a work folder that is gone afterwards.

    LakeError when the lake can't be used, or is in use and the user does not want to wait.
    """
    lake = Lake(args.lake)
    with lake.lock(wait=not args.no_wait, on_wait=lambda line: note(line, quiet=args.quiet)):
        lake.check_format()
        lake.sweep(on_damage=lambda line: note(f"turnlake: {line}"))
        work = lake.work_dir()
        try:
            yield lake, work
        finally:
            shutil.rmtree(work)


def sources_of(args: argparse.Namespace) -> list[Source]:
    """The sources named, else the default one. SourceError for one that is not there."""
    return [parse_source(text) for text in args.sources] or [default_source(os.environ)]


def checked_sources(args: argparse.Namespace) -> list[Source]:
    """The sources as `sources_of`, looked at before a lake is made for them.

    SourceError where they contradict each other, or files are named that are no logs and nothing else is there.
    """
    sources = sources_of(args)
    merge_sources(sources)
    files = [source for source in sources if isinstance(source.root, Path) and source.root.is_file()]
    if files and not _hold_logs(sources) and not _holds_logs(Lake(args.lake)):
        raise SourceError(f"{files[0].place} is no log, and nothing else is there. {_ask_doctor(files[0].place)}.")
    return sources


def _hold_logs(sources: Sequence[Source]) -> bool:
    from turnlake.reports.judged import is_log

    return any(map(is_log, find_logs(sources).logs))


def _holds_logs(lake: Lake) -> bool:
    current = lake.current() if lake.check_format() != "new" else None
    return any(log.is_log for log in manifest_of(current).logs.values())


def _ask_doctor(place: str) -> str:
    return f"`turnlake doctor {shlex.quote(place)}` tells what is there"


def ingest_logs(lake: Lake, work: Path, args: argparse.Namespace, sources: Sequence[Source]) -> IngestRun:
    """Read what is new of the sources into a new state of the lake, and note the run in its loads.

    Where nothing is new the state stays the one there is; then no log and no Parquet file is opened.
    """
    started_at = _now()
    discovery = find_logs(sources)
    is_older = lake.check_format() == "rebuild"
    options = Options(
        args.workers, args.max_line or MAX_LINE, args.full, args.purge_missing, is_older, cluster=args.engine
    )
    before = lake.current()
    plan = plan_ingest(discovery, before, options)
    if before is not None and not plan.is_news:
        known = plan.before
        seen = plan.unchanged_count
        counts = _counts(seen, 0, seen, known.refused_count, 0)
        append_load(lake, Load(started_at, _now(), args.command, **counts, read=()))
        is_partial = _note_empty(discovery, known, args) or known.is_partial
        return IngestRun(before, counts, is_partial, is_news=False, others=_others(discovery, known))
    # Arrow is loaded only now, and before worker processes are forked: each would load it again.
    from turnlake.lake.ingest import ingest

    with progress("reading logs", len(plan.to_convert), quiet=args.quiet) as advance:
        ingested = ingest(discovery, work, options, advance, before, plan)
    state = lake.commit_state(work, plan.damaged)
    if plan.damaged:
        note(f"turnlake: {named(plan.damaged)} not as written: {plural(plan.damaged_log_count, 'log')} read again")
    for place in ingested.lost:
        note(f"turnlake: {place} is lost: the log is gone, and its rows were damaged")
    unchanged, read = plan.unchanged_count, len(ingested.read)
    seen = unchanged + read
    counts = _counts(seen, read, unchanged, ingested.refused_count, ingested.events_added)
    reads = tuple(LogRead(path, why) for path, why in ingested.read)
    append_load(lake, Load(started_at, _now(), args.command, **counts, read=reads))
    is_partial = _note_empty(discovery, ingested.manifest, args) or ingested.is_partial
    others = _others(discovery, ingested.manifest)
    return IngestRun(state, counts, is_partial, is_news=True, is_repaired=bool(plan.damaged), others=others)


def _note_empty(discovery: Discovery, known: Manifest, args: argparse.Namespace) -> bool:
    """Tells of each source that no log was found at, of --follow only its first build; whether there is one."""
    filled: set[str] = set()
    for log in discovery.logs:
        if log.source not in filled and (entry := known.logs.get(log.log_id)) and entry.is_log:
            filled.add(log.source)
    empty = [probed.place for probed in discovery.probed if probed.source not in filled]
    for place in empty if not getattr(args, "again", False) else ():
        note(f"turnlake: no log was found at {place}: {_ask_doctor(place)}")
    return bool(empty)


def _others(discovery: Discovery, known: Manifest) -> dict[str, int]:
    """The logs of the lake by source, of the sources that were not looked at now."""
    looked_at = {probed.source for probed in discovery.probed}
    counts = Counter(log.source for log in known.logs.values() if log.is_log and log.source not in looked_at)
    return dict(sorted(counts.items()))


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
    from turnlake.prices.prices import load_prices, override_file

    return load_prices(override_file(args.lake, args.prices, os.environ), args.currency)


def is_published(lake: Lake, state: State, prices: Prices) -> bool:
    """Whether the database in place was built from that state, these prices and the models of now, and is checked."""
    published = lake.published()
    return published is not None and (published.state_id, dict(published.inputs)) == (state.id, _inputs(prices, True))


def publish_models(
    lake: Lake, state: State, work: Path, args: argparse.Namespace, prices: Prices, *, anew: bool = False
) -> BuildResult:
    """Build the database of a state, priced by these cards, and publish it; what was built.

    `build` renews the published one where few sessions differ, unless told to read everything or to make it anew, and
    checks it. `model` leaves the check to the next `build` or `check`.
    """
    from turnlake.models.build import build_database

    database, limits = work / "turnlake.duckdb", {"memory": args.memory, "threads": args.threads}
    is_checked = args.command == "build"
    before = _renewable(lake, prices) if is_checked and not args.full and not anew else None
    result = None if before is None else _renewed(lake, before, state, database, limits)
    if result is None:
        compare = _compare_small(state, args) if is_checked else None
        result = build_database(state.raw_files(), database, prices=prices, compare=compare, **limits)
    if is_checked and not result.is_compared:
        check_database(database, state, args)
    lake.publish(state, database, _inputs(prices, is_checked))
    return result


def _renewed(lake: Lake, before: State, state: State, database: Path, limits: dict[str, Any]) -> BuildResult | None:
    """The published database renewed; None where it has to be built anew."""
    import duckdb

    from turnlake.models.renew import renew_database

    try:
        return renew_database(lake.database, before, state, database, **limits)
    except (TurnlakeError, duckdb.Error) as error:
        # It, or the state it reads, may be damaged. What is wrong with models or state will be told once more.
        note(f"turnlake: the database can't be renewed and is built anew ({' '.join(str(error).split())[:200]})")
        return None


def check_database(database: Path, state: State, args: argparse.Namespace) -> None:
    """Compare the sessions of a state's database that have no check yet with what their logs gave when read."""
    from turnlake.check.share import fill_database

    fill_database(database, state, _check_workers(args), args.memory)


def _compare_small(state: State, args: argparse.Namespace) -> Callable[[DuckDBPyConnection], bool]:
    """The same for a database that is open already, where it is small."""

    def compare(db: DuckDBPyConnection) -> bool:
        # Loaded only now: where a model fails there is nothing to compare.
        from turnlake.check.share import fill_small

        return fill_small(db, state, _check_workers(args))

    return compare


def _check_workers(args: argparse.Namespace) -> int:
    return getattr(args, "workers", None) or args.threads or default_workers()


def _renewable(lake: Lake, prices: Prices) -> State | None:
    """The state of the published database; None where it was not built as it would be now."""
    published = lake.published()
    either = [_inputs(prices, is_checked) for is_checked in (True, False)]
    return lake.published_state() if published and dict(published.inputs) in either else None


def _inputs(prices: Prices, is_checked: bool) -> dict[str, str]:
    """What else than a state decides what is in the database."""
    from turnlake.models.folder import models_digest

    models = {"models": models_digest(), "lake_format": str(LAKE_FORMAT)}
    return {**prices.inputs, **models, CHECKED: "yes" if is_checked else "no"}


def current_state(lake: Lake) -> State:
    """The newest state of a lake. LakeError where nothing was ingested yet, or its files are damaged."""
    state = lake.current()
    if state is None:
        raise LakeError(f"{lake.path} holds no logs yet. Run `turnlake ingest` or `turnlake build` first.")
    if manifest_of(state).parser_version != PARSER_VERSION:
        raise LakeError(f"{lake.path} was read by another version of turnlake. Run `turnlake build` to read it again.")
    require_whole(state)
    return state


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
