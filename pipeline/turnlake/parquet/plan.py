"""What an ingest has to do: which logs to read from where, which rows of the state before to keep."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from turnlake.logs.discover import Discovery, LogFile
from turnlake.logs.lines import MAX_LINE
from turnlake.parquet.checkpoints import Change, change_of
from turnlake.parquet.manifest import Manifest, read_manifest
from turnlake.parquet.state import State
from turnlake.parquet.tables import PARSER_VERSION


@dataclass(frozen=True)
class Options:
    """How to ingest: `max_line` in bytes, `full` reads every log again, `purge_missing` drops those that are gone."""

    workers: int
    max_line: int = MAX_LINE
    full: bool = False
    purge_missing: bool = False


@dataclass(frozen=True)
class Plan:
    """`read` are logs to read and why; a grown one from its mark on. `gone` are log_ids whose rows go.

    `missing` are logs of the state before that are not there any more and stay, `replayed` those among them whose
    rows an older parser wrote.
    """

    read: Mapping[str, tuple[LogFile, Change | str]]
    unchanged: frozenset[str]
    missing: frozenset[str]
    replayed: frozenset[str]
    gone: frozenset[str]
    left_out: str
    is_news: bool


def manifest_of(state: State | None) -> Manifest:
    """What a state remembers of its files; nothing where there is no state yet."""
    return Manifest() if state is None else read_manifest(state.manifest())


def plan_ingest(discovery: Discovery, before: State | None, options: Options) -> Plan:
    """What there is to do. Opens no Parquet file, and only logs whose size or time changed."""
    return make_plan(discovery, manifest_of(before), options, is_first=before is None)


def make_plan(discovery: Discovery, manifest: Manifest, options: Options, *, is_first: bool) -> Plan:
    """Compare what is there with what the state before knows. Opens only logs whose size or time changed."""
    found = {log.log_id: log for log in discovery.logs}
    missing = _missing(discovery, manifest)
    is_outdated = manifest.parser_version != PARSER_VERSION
    read: dict[str, tuple[LogFile, Change | str]] = {}
    for log_id, log in found.items():
        change: Change | str = change_of(log, manifest.logs.get(log_id))
        if change != "new" and (options.full or is_outdated):
            change = "full" if options.full else "parser"
        if change != "unchanged":
            read[log_id] = (log, change)
    rewritten = {log_id for log_id, (_, why) in read.items() if why not in ("new", "grown")}
    purged = missing if options.purge_missing else frozenset()
    replayed = missing - purged if is_outdated else frozenset()
    left_out = _digest(discovery)
    kept = missing - purged
    return Plan(
        read=read,
        unchanged=frozenset(found.keys() - read.keys()),
        missing=kept,
        replayed=replayed,
        gone=frozenset(rewritten | purged | replayed),
        left_out=left_out,
        is_news=is_first
        or bool(read or purged or replayed)
        or (kept, left_out) != (manifest.missing, manifest.left_out),
    )


def _missing(discovery: Discovery, manifest: Manifest) -> frozenset[str]:
    """Logs known from a source that was looked through now, and not there; of other sources as it was."""
    found = {log.log_id for log in discovery.logs}
    absent = manifest.logs.keys() - found
    looked_through = {probed.source for probed in discovery.probed}
    unreadable = any(finding.code == "unreadable_folder" for _, finding in discovery.findings)
    return frozenset(
        log_id
        for log_id in absent
        if manifest.logs[log_id].is_log
        and (log_id in manifest.missing or (manifest.logs[log_id].source in looked_through and not unreadable))
    )


def _digest(discovery: Discovery) -> str:
    text = "\n".join(repr((place, tuple(finding))) for place, finding in discovery.findings)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
