"""Logs -> a new state of the lake: find, convert in batches, decide which logs count."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from turnlake.findings import Finding
from turnlake.logs.discover import Discovery, LogFile
from turnlake.logs.lines import MAX_LINE
from turnlake.parquet import engine
from turnlake.parquet.batches import largest_first, make_batches
from turnlake.parquet.convert import Batch, Row, convert, finding_row
from turnlake.parquet.copies import log_starts_with
from turnlake.parquet.files import make_folder
from turnlake.parquet.sessions import LogFacts, resolve
from turnlake.parquet.tables import FINDINGS, LOGS, PARSER_VERSION, TABLES
from turnlake.parquet.write import write_rows

LOGS_PART = "logs.parquet"
# Findings about more than one log, or about no log at all.
FINDINGS_PART = "lake.parquet"


@dataclass(frozen=True)
class Options:
    """How to ingest. `max_line` is in bytes."""

    workers: int
    max_line: int = MAX_LINE


@dataclass(frozen=True)
class Ingested:
    """What an ingest wrote below its work folder: all tables and the manifest. `logs` are the rows of `logs`."""

    logs: tuple[Row, ...]

    @property
    def refused(self) -> tuple[Row, ...]:
        """The logs that the harness would refuse."""
        return tuple(row for row in self.logs if row["verdict"] == "refused")

    @property
    def event_count(self) -> int:
        """Readable events in all logs, chunks expanded."""
        return sum(row.get("event_count") or 0 for row in self.logs)


def ingest(
    discovery: Discovery, work: Path, options: Options, on_logs_done: Callable[[int], None] = lambda count: None
) -> Ingested:
    """Convert all logs found into the tables of a new state below work. `on_logs_done` is told how many more are."""
    for table in TABLES:
        make_folder(work / table)
    batches = make_batches(discovery.logs)
    rows = _convert_all(batches, work, options, on_logs_done)
    logs = [log for log in discovery.logs if log.log_id in rows]
    findings = _decide(logs, rows)
    by_place = {log.place: log.log_id for log in logs}
    findings += [finding_row(finding, by_place.get(place)) for place, finding in discovery.findings]
    ordered = tuple(rows[log.log_id] for log in logs)
    write_rows(work / "logs" / LOGS_PART, LOGS, ordered)
    write_rows(work / "findings" / FINDINGS_PART, FINDINGS, findings)
    (work / "manifest.json").write_bytes(_manifest(batches))
    return Ingested(ordered)


def _convert_all(
    batches: Sequence[Batch], work: Path, options: Options, on_logs_done: Callable[[int], None]
) -> dict[str, Row]:
    """The rows of all logs that are logs, by log_id."""
    rows: dict[str, Row] = {}
    job = functools.partial(convert, folder=work, max_line=options.max_line)
    for converted in engine.run(job, largest_first(batches), options.workers):
        rows.update((one.log_id, one.row) for one in converted if one.row is not None)
        on_logs_done(len(converted))
    return rows


def _decide(logs: Iterable[LogFile], rows: dict[str, Row]) -> list[Row]:
    """Set in each row what depends on the other logs; the findings that this gave."""
    by_id = {log.log_id: log for log in logs}
    findings: list[Row] = []

    def starts_with(longer: str, shorter: str) -> bool:
        try:
            return log_starts_with(by_id[longer], by_id[shorter])
        except OSError as error:
            detail = f"{by_id[longer].place} and {by_id[shorter].place} can't be compared: {error.strerror or error}"
            findings.append(finding_row(Finding("unreadable_file", detail), longer))
            return False

    resolution = resolve((_facts(log, rows[log.log_id]) for log in by_id.values()), starts_with)
    for log_id, resolved in resolution.by_log_id.items():
        rows[log_id] |= {
            "session_id": resolved.session_id,
            "superseded_by": resolved.superseded_by,
            "superseded_why": resolved.superseded_why,
        }
    findings += [finding_row(finding, log_id) for log_id, finding in resolution.findings]
    return findings


def _facts(log: LogFile, row: Row) -> LogFacts:
    return LogFacts(
        log_id=log.log_id,
        source=log.source,
        path=log.path,
        folder=log.folder,
        generation=log.generation,
        header_id=row.get("header_id"),
        created_at_ms=row.get("created_at_ms"),
        format_version=row.get("format_version"),
        record_count=row.get("line_count") or 0,
        event_count=row.get("event_count") or 0,
        last_event_ms=row.get("last_event_ms"),
        is_read=row["is_read"],
        container=row.get("container") or "raw",
    )


def _manifest(batches: Sequence[Batch]) -> bytes:
    """What the next ingest must know of each file: the part that holds its rows, its size and mtime."""
    logs = {log.log_id: [batch.name, log.size, log.mtime_ns] for batch in batches for log in batch.logs}
    return orjson.dumps({"parser_version": PARSER_VERSION, "logs": logs})
