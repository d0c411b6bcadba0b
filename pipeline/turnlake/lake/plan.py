"""What an ingest has to do: one decision for each log that was found or that the state before knows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Literal, NamedTuple

from turnlake.lake.files import Part, damaged_parts, logs_in
from turnlake.lake.manifest import Known, Manifest, can_be_opened, change_of, manifest_of
from turnlake.lake.state import State
from turnlake.rows import tables
from turnlake.sources.discover import Discovery
from turnlake.sources.lines import MAX_LINE
from turnlake.sources.logfile import LogFile


@dataclass(frozen=True)
class Options:
    """How to ingest: `max_line` in bytes, `full` reads every log again, `purge_missing` drops those that are gone.

    `is_older` says that an older version wrote the lake: nothing that it made is trusted. `cluster` is HOST:PORT of a
    Dask scheduler, and `workers` how many batches are worked on at once: None for as many as there are processors.
    """

    workers: int | None
    max_line: int = MAX_LINE
    full: bool = False
    purge_missing: bool = False
    is_older: bool = False
    cluster: str | None = None


class Action(Enum):
    """What an ingest does about a log."""

    READ = "read from its start; rows that are stored of it go"
    RESUME = "read on from its mark, after its stored rows were replayed"
    KEEP = "leave its stored rows as they are"
    REBUILD_FROM_ROWS = "make its rows anew from the stored ones, since an older parser wrote these"
    DROP = "its stored rows go"


# Why every log is read again.
Again = Literal["parser", "options", "full"]
# Why a log that was found is read, as `raw.loads` says it, or left.
FoundReason = Literal["new", "grown", "changed", "returned", "damaged", "parser", "options", "full", "unchanged"]
# What is the matter with one that was not found: it is gone, or its source was not looked through; `--purge-missing`
# removes it; it is gone and its stored rows are damaged; it was no log anyway.
AbsentReason = Literal["missing", "not looked for", "purged", "lost", "no log"]


class Decision(NamedTuple):
    """What to do about one log, and why.

    `file` is where it was found, None where it was not; `known` is what the state before remembers of it, None where
    that has never seen it. `is_damaged` says that its stored rows are in damaged files, so that they can't stay.
    """

    action: Action
    reason: FoundReason | AbsentReason
    file: LogFile | None
    known: Known | None
    is_damaged: bool = False


@dataclass(frozen=True)
class Plan:
    """`decisions` holds what to do by log_id: first the logs that were found, in order of source and path.

    `before` is what the state before remembers, `damaged` are those of its files that are not as they were written.
    `left_out` stands for what discovery found besides logs. `is_stale` says that parser or `--max-line` changed: what
    is not read now is to be read when it is found again. `is_news` is False where the state before can stay.
    """

    before: Manifest
    decisions: Mapping[str, Decision]
    left_out: str
    is_news: bool
    is_stale: bool = False
    damaged: frozenset[Part] = frozenset()

    @cached_property
    def to_convert(self) -> dict[str, Decision]:
        """The logs whose rows are made now: those to be read, in order, and those that are made from stored rows."""
        idle = (Action.KEEP, Action.DROP)
        return {log_id: one for log_id, one in self.decisions.items() if one.action not in idle}

    @property
    def damaged_log_count(self) -> int:
        """How many logs have rows in damaged files."""
        return sum(one.is_damaged for one in self.decisions.values())

    @property
    def unchanged_count(self) -> int:
        """How many logs were found as they are known."""
        return sum(
            one.reason == "unchanged" and one.known is not None and one.known.is_log for one in self.decisions.values()
        )


def plan_ingest(discovery: Discovery, before: State | None, options: Options) -> Plan:
    """What there is to do. Opens only logs whose size or time changed, and no Parquet file where there is no news."""
    manifest = manifest_of(before)
    if before is None:
        return make_plan(discovery, manifest, options, is_first=True)
    plan = make_plan(discovery, manifest, options, is_first=False, damaged=damaged_parts(before, by_content=False))
    # The new state goes on from these files.
    damaged = damaged_parts(before, by_content=True) if plan.is_news else plan.damaged
    if damaged == plan.damaged:
        return plan
    return make_plan(discovery, manifest, options, is_first=False, damaged=damaged)


def make_plan(
    discovery: Discovery,
    manifest: Manifest,
    options: Options,
    *,
    is_first: bool,
    damaged: frozenset[Part] = frozenset(),
) -> Plan:
    """Compare what is there with what the state before knows. Opens only logs whose size or time changed."""
    again = None if is_first else _why_again(manifest, options)
    damaged_logs = logs_in(damaged, manifest.logs)
    decisions: dict[str, Decision] = {}
    to_ask = damaged_logs | manifest.to_reread
    for log in discovery.logs:
        log_id = log.log_id
        known = manifest.logs.get(log_id)
        if (
            known
            and again is None
            and log.mtime_ns == known.mtime_ns
            and log.size == known.size
            and log_id not in to_ask
        ):
            # Nearly every log, so it is worth its own line.
            decisions[log_id] = Decision(Action.KEEP, "unchanged", log, known)
            continue
        is_damaged, is_due = log_id in damaged_logs, log_id in manifest.to_reread
        decisions[log_id] = _found(log, known, again, is_damaged=is_damaged, is_due=is_due)
    looked_through = _looked_through(discovery)
    for log_id in sorted(manifest.logs.keys() - decisions.keys()):
        known = manifest.logs[log_id]
        is_missing = log_id in manifest.missing or known.source in looked_through
        decisions[log_id] = _absent(known, again, options, is_missing=is_missing, is_damaged=log_id in damaged_logs)
    keep = Action.KEEP
    missing = frozenset(log_id for log_id, one in decisions.items() if one.reason == "missing")
    left_out = _digest(discovery)
    return Plan(
        before=manifest,
        decisions=decisions,
        left_out=left_out,
        is_news=is_first
        or again is not None
        or bool(damaged)
        or any(one.action is not keep for one in decisions.values())
        or any((one := decisions.get(log_id)) is not None and one.file is not None for log_id in manifest.lost)
        or bool(manifest.lost and options.purge_missing)
        or (missing, left_out) != (manifest.missing, manifest.left_out),
        is_stale=again in ("parser", "options"),
        damaged=damaged,
    )


def _why_again(manifest: Manifest, options: Options) -> Again | None:
    """Why every log is read again; None where only some are."""
    if manifest.parser_version != tables.PARSER_VERSION or options.is_older:
        return "parser"
    if manifest.max_line != options.max_line:
        return "options"
    return "full" if options.full else None


def _found(log: LogFile, known: Known | None, again: Again | None, *, is_damaged: bool, is_due: bool) -> Decision:
    """What to do about a log that was found; `is_due` says that it is to be read as soon as it can be opened."""
    if known is None:
        return Decision(Action.READ, "new", log, None)
    if again is not None or is_damaged:
        return Decision(Action.READ, again or "damaged", log, known, is_damaged)
    change = change_of(log, known)
    if is_due and (change != "unchanged" or can_be_opened(log)):
        return Decision(Action.READ, "returned", log, known)
    match change:
        case "unchanged":
            return Decision(Action.KEEP, change, log, known)
        case "grown":
            return Decision(Action.RESUME, change, log, known)
        case _:
            return Decision(Action.READ, change, log, known)


def _absent(known: Known, again: Again | None, options: Options, *, is_missing: bool, is_damaged: bool) -> Decision:
    """What to do about a log that the state before knows and that was not found."""
    if not known.is_log:
        return Decision(Action.DROP, "no log", None, known, is_damaged)
    if is_damaged:
        return Decision(Action.DROP, "lost", None, known, is_damaged)
    if is_missing and options.purge_missing:
        return Decision(Action.DROP, "purged", None, known)
    action = Action.REBUILD_FROM_ROWS if again == "parser" else Action.KEEP
    return Decision(action, "missing" if is_missing else "not looked for", None, known)


def _looked_through(discovery: Discovery) -> frozenset[str]:
    """The sources of which a log that was not found is missing; none where any folder or store can't be read."""
    if any(finding.code in ("unreadable_folder", "store_unreadable") for _, finding in discovery.findings):
        return frozenset()
    return frozenset(probed.source for probed in discovery.probed)


def _digest(discovery: Discovery) -> str:
    text = "\n".join(repr((place, tuple(finding))) for place, finding in discovery.findings)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
