"""The rows of a batch of logs on their way to its files.

Rows that the next reading of their log replaces go to files of their own: rows of a torn frame, and findings
about how a log ends. Everything else stands still once it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turnlake.findings import CODES, Finding
from turnlake.format.record import Record
from turnlake.format.runs import Run
from turnlake.format.values import is_int
from turnlake.rows.columns import Columns
from turnlake.rows.event_row import ENCODED_COLUMNS, EVENT_COLUMNS, RUN_COLUMNS, event_row, run_row, scrubbed_run
from turnlake.rows.facts import Facts
from turnlake.rows.tables import CHUNK_RUNS, EVENTS, FINDINGS
from turnlake.rows.writer import PartWriter

# Bytes of log lines that make up a row group: what one conversion holds in memory at a time.
GROUP_BYTES = 12 << 20
# What a finding weighs in a row group: a log may be nothing but faults.
FINDING_BYTES = 500
# The folder beside the tables that holds what the next reading replaces.
TAIL = "tail"

Row = dict[str, Any]


class PartRows:
    """Rows of one part in each of `events`, `chunk_runs` and `findings`; written in row groups as they come."""

    def __init__(self, folder: Path, name: str) -> None:
        self._events = Columns(EVENTS, always=EVENT_COLUMNS, encoded=ENCODED_COLUMNS)
        self._runs = Columns(CHUNK_RUNS, always=RUN_COLUMNS, flat=("dt", "texts"), encoded=ENCODED_COLUMNS)
        self._dt, self._texts = self._runs.lists["dt"], self._runs.lists["texts"]
        self._findings = Columns(FINDINGS)
        self._writer = PartWriter(folder, name, (EVENTS, CHUNK_RUNS, FINDINGS))
        # Bytes of the lines since the last row group.
        self.held = 0

    def add(self, record: Record, log_id: str) -> None:
        """The rows of a record."""
        self.held += len(record.raw)
        if record.run is not None:
            self._add_run(record, record.run, log_id)
            return
        self._events.add(*event_row(record, log_id))
        if record.stream:
            turn, step = (_int_or_none(record.event["data"].get(name)) for name in ("turn", "step"))
            for ordinal, run in enumerate(record.stream):
                run.turn, run.step = turn, step
                self._add_run(record, run, log_id, ordinal)

    def _add_run(self, record: Record, run: Run, log_id: str, ordinal: int | None = None) -> None:
        if record.is_odd:
            run = scrubbed_run(run)
        self.add_run(*run_row(record, run, log_id, ordinal), run.dt, run.texts)

    def add_run(self, row: tuple[Any, ...], facts: Facts, dt: list[int] | None, texts: list[str] | None) -> None:
        """One row of `chunk_runs`: its RUN_COLUMNS, what else it has, and its lists."""
        self._runs.add(row, facts)
        self._dt.append(dt)
        self._texts.append(texts)

    def add_findings(self, findings: Iterable[Finding], log_id: str | None) -> None:
        """The rows of findings."""
        for finding in findings:
            self._findings.add((), finding_row(finding, log_id))
            self.held += FINDING_BYTES

    def flush_if_full(self) -> None:
        """Hand a row group to the writer once enough has come together."""
        if self.held > GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._writer.write(
            {"events": self._events.take(), "chunk_runs": self._runs.take(), "findings": self._findings.take()}
        )
        self.held = 0

    def close(self) -> None:
        """Write what is left and finish the files."""
        self._flush()
        self._writer.close()


def finding_row(finding: Finding, log_id: str | None) -> Row:
    """The row of a finding."""
    row: Row = {"log_id": log_id, **finding._asdict()}
    row["severity"] = finding.severity or CODES[finding.code].severity
    return row


def _int_or_none(value: object) -> int | None:
    return int(value) if is_int(value) else None
