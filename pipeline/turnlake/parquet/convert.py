"""A batch of logs -> one part in each of `events`, `chunk_runs` and `findings`, and a row for each log.

Pure: the same logs give the same bytes, in any process, any number of times.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnlake.events.reader import LogPass
from turnlake.events.runs import Run
from turnlake.events.scan import Record
from turnlake.events.values import is_int
from turnlake.events.verdict import Verdict
from turnlake.findings import CODES, Finding
from turnlake.logs.container import container_of, open_log
from turnlake.logs.discover import LogFile
from turnlake.logs.lines import MAX_LINE
from turnlake.parquet.columns import Columns
from turnlake.parquet.rows import ENCODED_COLUMNS, EVENT_COLUMNS, RUN_COLUMNS, event_row, run_row, scrubbed_run
from turnlake.parquet.tables import CHUNK_RUNS, EVENTS, FINDINGS, PARSER_VERSION
from turnlake.parquet.write import PartWriter

# Bytes of log lines that make up a row group: what one conversion holds in memory at a time.
GROUP_BYTES = 24 << 20
# A log may be nothing but faults: how many are collected at a time, and what one weighs in a row group.
FINDINGS_AT_ONCE = 10_000
FINDING_BYTES = 500


Row = dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """Logs to convert together; `name` is the name of the parts they become."""

    name: str
    logs: tuple[LogFile, ...]


@dataclass(frozen=True)
class Converted:
    """What became of one log: its row of `logs`, without what depends on other logs; None for a file that is no log."""

    log_id: str
    row: Row | None
    findings: int


def convert(batch: Batch, folder: Path, max_line: int = MAX_LINE) -> list[Converted]:
    """Write the parts `<folder>/<table>/<batch.name>` and tell what each log is. The folders are there already."""
    with _no_collector():
        part = _Part(folder, batch.name)
        try:
            return [part.convert(log, max_line) for log in batch.logs]
        finally:
            part.close()


@contextmanager
def _no_collector() -> Iterator[None]:
    """Rows by the hundred thousand hold no cycles; looking for some among them costs a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Part:
    """The rows of one batch on their way to its files."""

    def __init__(self, folder: Path, name: str) -> None:
        self._events = Columns(EVENTS, always=EVENT_COLUMNS, encoded=ENCODED_COLUMNS)
        self._runs = Columns(CHUNK_RUNS, always=RUN_COLUMNS, flat=("dt", "texts"), encoded=ENCODED_COLUMNS)
        self._findings = Columns(FINDINGS)
        self._writer = PartWriter(folder, name, (EVENTS, CHUNK_RUNS, FINDINGS))
        self._held = 0
        self._log_findings = 0

    def convert(self, log: LogFile, max_line: int) -> Converted:
        self._log_findings = 0
        try:
            container = container_of(log)
            with open_log(log) as file:
                reading = LogPass(log, file, container, max_line)
                self._read(reading, log.log_id)
        except OSError as error:
            finding = Finding("unreadable_file", f"{log.place}: {error.strerror or error}")
            self._add_findings([finding], log.log_id)
            return Converted(log.log_id, unreadable_row(log), self._log_findings)
        if reading.scan.is_no_log:
            self._add_findings([Finding("not_a_log", log.place)], None)
            return Converted(log.log_id, None, self._log_findings)
        self._add_findings(reading.scan.findings, log.log_id)
        return Converted(log.log_id, log_row(log, reading), self._log_findings)

    def _read(self, reading: LogPass, log_id: str) -> None:
        for records in reading.record_blocks():
            for record in records:
                self._held += len(record.raw)
                if record.run is not None:
                    self._add_run(record, record.run, log_id)
                else:
                    self._add_event(record, log_id)
            if len(reading.scan.findings) > FINDINGS_AT_ONCE:
                # The last one stays: the next line may be of its kind.
                *done, last = reading.scan.findings
                reading.scan.findings[:] = [last]
                self._add_findings(done, log_id)
            if self._held > GROUP_BYTES:
                self._flush()

    def _add_event(self, record: Record, log_id: str) -> None:
        self._events.add(*event_row(record, log_id))
        if record.stream:
            turn, step = (_int_or_none(record.event["data"].get(name)) for name in ("turn", "step"))
            for ordinal, run in enumerate(record.stream):
                run.turn, run.step = turn, step
                self._add_run(record, run, log_id, ordinal)

    def _add_run(self, record: Record, run: Run, log_id: str, ordinal: int | None = None) -> None:
        if record.is_odd:
            run = scrubbed_run(run)
        self._runs.add(*run_row(record, run, log_id, ordinal))
        self._runs.lists["dt"].append(run.dt)
        self._runs.lists["texts"].append(run.texts)

    def _add_findings(self, findings: Sequence[Finding], log_id: str | None) -> None:
        for finding in findings:
            self._findings.add((), finding_row(finding, log_id))
        self._log_findings += len(findings)
        self._held += len(findings) * FINDING_BYTES

    def _flush(self) -> None:
        self._writer.write(
            {"events": self._events.take(), "chunk_runs": self._runs.take(), "findings": self._findings.take()}
        )
        self._held = 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _int_or_none(value: object) -> int | None:
    return int(value) if is_int(value) else None


def finding_row(finding: Finding, log_id: str | None) -> Row:
    """The row of a finding."""
    row: Row = {"log_id": log_id, **finding._asdict()}
    row["severity"] = finding.severity or CODES[finding.code].severity
    return row


def unreadable_row(log: LogFile) -> Row:
    """The row of a log that can't be opened or read to its end."""
    return _place(log) | {"verdict": "refused", "verdict_reason": "unreadable", "is_read": False}


def _place(log: LogFile) -> Row:
    return {
        "log_id": log.log_id,
        "source": log.source,
        "machine": log.machine,
        "path": log.path,
        "file_name": log.file_name,
        "generation": log.generation,
        "bytes": log.size,
        "is_missing": False,
        "parser_version": PARSER_VERSION,
    }


def log_row(log: LogFile, reading: LogPass) -> Row:
    """The row of a log that was read."""
    scan, lines, verdict = reading.scan, reading.lines, reading.verdict
    assert verdict is not None  # set when all records were read
    header = scan.header
    facts: Row = {}
    if header is not None:
        facts = {
            "header_id": header.id,
            "format_version": header.version,
            "created_at_ms": header.created_at_ms,
            "cwd": header.cwd,
            "parent_session_id": header.parent_session,
            "origin": header.origin,
            "delegation_depth": header.delegation_depth,
            "agent_preset": header.agent_preset,
            "is_seeded": header.is_seeded,
        }
    if facts.get("created_at_ms") is None:
        facts["created_at_ms"] = scan.clock.earliest
    return {
        **_place(log),
        **facts,
        **_counts(verdict),
        "container": reading.container,
        "header": scan.header_line.decode("utf-8", "replace") if scan.header_line is not None else None,
        "dialect": verdict.dialect,
        "decoded_bytes": lines.decoded_bytes,
        "line_count": lines.line_count,
        "verdict": verdict.verdict,
        "verdict_reason": verdict.reason,
        "verdict_line": verdict.line,
        "is_torn": lines.is_torn,
        "torn_bytes": lines.torn_bytes,
        "is_read": not scan.is_stopped and verdict.dialect is not None,
        "has_unknown_required_type": verdict.has_unknown_required_type,
        "first_event_ms": scan.clock.earliest,
        "last_event_ms": scan.clock.latest,
        "clock_anomaly_count": scan.clock.anomaly_count,
    }


def _counts(verdict: Verdict) -> dict[str, Any]:
    return {
        "inherited_event_count": verdict.inherited_event_count,
        "event_count": verdict.event_count,
        "accepted_event_count": verdict.accepted_event_count,
        "dropped_record_count": verdict.dropped_record_count,
        "unread_line_count": verdict.unread_line_count,
    }
