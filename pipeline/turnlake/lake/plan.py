"""What an ingest has to do: which logs to read from where, which rows of the state before to keep."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from turnlake.lake.checkpoints import can_be_opened, change_of
from turnlake.lake.damage import damaged_parts, logs_in
from turnlake.lake.manifest import Manifest, read_manifest
from turnlake.lake.parts import Part
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


@dataclass(frozen=True)
class Plan:
    """`read` are logs to read and why; a grown one from its mark on. `gone` are log_ids whose rows go.

    `missing` are logs of the state before that are not there any more and stay. Of the logs that were not found, be
    they missing or of a source not looked through, `replayed` have rows that an older parser wrote, and `due` are
    to be read when they are found again. `before` is what the state before remembers. Of its files `damaged` are not as
    they were written: `spoilt` are the logs with rows in one, of which those that are there are read again and the
    others, which only the lake still had, are lost.
    """

    before: Manifest
    read: Mapping[str, tuple[LogFile, str]]
    unchanged: frozenset[str]
    missing: frozenset[str]
    replayed: frozenset[str]
    due: frozenset[str]
    gone: frozenset[str]
    left_out: str
    is_news: bool
    damaged: frozenset[Part] = frozenset()
    spoilt: frozenset[str] = frozenset()


def manifest_of(state: State | None) -> Manifest:
    """What a state remembers of its files; nothing where there is no state yet."""
    return Manifest() if state is None else read_manifest(state.manifest())


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
    spoilt = logs_in(damaged, manifest.logs)
    found = {log.log_id: log for log in discovery.logs}
    again = None if is_first else _why_again(manifest, options)
    damage = dict.fromkeys(spoilt, "damaged")
    reasons = {log_id: _why(log_id, log, manifest, again or damage.get(log_id)) for log_id, log in found.items()}
    read = {log_id: (found[log_id], why) for log_id, why in reasons.items() if why != "unchanged"}
    lost = frozenset(log_id for log_id in spoilt - found.keys() if manifest.logs[log_id].is_log)
    missing = _missing(discovery, manifest, found) - lost
    purged = missing if options.purge_missing else frozenset()
    absent = manifest.logs.keys() - found.keys() - purged - lost
    no_logs = frozenset(log_id for log_id in absent if not manifest.logs[log_id].is_log)
    stale = frozenset(absent - no_logs) if again in ("parser", "options") else frozenset()
    replayed = stale if again == "parser" else frozenset()
    rewritten = {log_id for log_id, (_, why) in read.items() if why not in ("new", "grown")}
    left_out = _digest(discovery)
    kept = missing - purged
    return Plan(
        before=manifest,
        read=read,
        unchanged=frozenset(found.keys() - read.keys()),
        missing=kept,
        replayed=replayed,
        due=stale,
        gone=frozenset(rewritten | purged | replayed | no_logs | lost),
        left_out=left_out,
        is_news=is_first
        or again is not None
        or bool(read or purged or no_logs or damaged or manifest.lost.keys() & found.keys())
        or bool(manifest.lost and options.purge_missing)
        or (kept, left_out) != (manifest.missing, manifest.left_out),
        damaged=damaged,
        spoilt=spoilt,
    )


def _why_again(manifest: Manifest, options: Options) -> str | None:
    """Why every log is read again, if so."""
    if manifest.parser_version != tables.PARSER_VERSION or options.is_older:
        return "parser"
    if manifest.max_line != options.max_line:
        return "options"
    return "full" if options.full else None


def _why(log_id: str, log: LogFile, manifest: Manifest, again: str | None) -> str:
    """Why that log is read, or `unchanged`."""
    known = manifest.logs.get(log_id)
    if known is not None and again is not None:
        return again
    change = change_of(log, known)
    if log_id in manifest.due and (change != "unchanged" or can_be_opened(log)):
        return "returned"
    return change


def _missing(discovery: Discovery, manifest: Manifest, found: Mapping[str, LogFile]) -> frozenset[str]:
    """Logs known from a source that was looked through now, and not there; of other sources as it was."""
    absent = manifest.logs.keys() - found.keys()
    looked_through = {probed.source for probed in discovery.probed}
    unreadable = any(finding.code in ("unreadable_folder", "store_unreadable") for _, finding in discovery.findings)
    return frozenset(
        log_id
        for log_id in absent
        if manifest.logs[log_id].is_log
        and (log_id in manifest.missing or (manifest.logs[log_id].source in looked_through and not unreadable))
    )


def _digest(discovery: Discovery) -> str:
    text = "\n".join(repr((place, tuple(finding))) for place, finding in discovery.findings)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
