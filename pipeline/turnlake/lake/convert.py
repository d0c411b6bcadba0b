"""A batch of logs -> one part in each of `events`, `chunk_runs` and `findings`, and a row for each log.

Pure: the same logs give the same bytes, in any process, any number of times.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnlake.findings import Finding
from turnlake.format.header import read_version
from turnlake.format.reader import LogPass, new_scan
from turnlake.format.verdict import Verdict
from turnlake.lake.manifest import fingerprint
from turnlake.messages.outline import Outline
from turnlake.messages.proof import prove
from turnlake.rows import tables
from turnlake.rows.replay import stored_lines
from turnlake.rows.writer import TAIL, PartRows, Row
from turnlake.sources.container import container_of, open_log
from turnlake.sources.lines import MAX_LINE, Mark
from turnlake.sources.logfile import LogFile
from turnlake.sources.remote import Unreached


@dataclass(frozen=True)
class Stored:
    """What a state holds of a log: its row of `logs`, the files that hold its events and chunk runs.

    `mark` is where reading goes on; None where the log is gone and its rows are made anew from what is stored.
    """

    row: Row
    events: tuple[Path, ...]
    chunk_runs: tuple[Path, ...]
    mark: Mark | None


@dataclass(frozen=True)
class Batch:
    """Logs to convert together; `name` is that of the parts they become, `stored` what is known of some by log_id."""

    name: str
    logs: tuple[LogFile, ...]
    stored: Mapping[str, Stored] = field(default_factory=dict)


@dataclass(frozen=True)
class Converted:
    """What became of one log.

    `row` is its row of `logs` without what depends on other logs, None for a file that is no log. `mark`, `head` and
    `tail` are for telling later whether it has grown (see `Known`). `is_gone` says that it was found and is not
    there any more; `unreached` says why it could not be opened, though it may be as it was.
    """

    log_id: str
    row: Row | None
    mark: Mark | None = None
    head: str = ""
    tail: str = ""
    is_gone: bool = False
    unreached: str | None = None


def convert(batch: Batch, folder: Path, max_line: int = MAX_LINE) -> list[Converted]:
    """Write the parts `<folder>/<table>/<batch.name>`, and below `<folder>/tail` what the next reading replaces.

    Tells what each log is.
    """
    with no_collector():
        rows, tail = PartRows(folder, batch.name), PartRows(folder / TAIL, batch.name)
        try:
            return [_convert(log, batch.stored.get(log.log_id), rows, tail, max_line) for log in batch.logs]
        finally:
            rows.close()
            tail.close()


@contextmanager
def no_collector() -> Iterator[None]:
    """Rows by the hundred thousand hold no cycles; looking for some among them costs a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _convert(log: LogFile, stored: Stored | None, rows: PartRows, tail: PartRows, max_line: int) -> Converted:
    if stored is not None and stored.mark is None:
        return _convert_again(log, stored, rows, tail)
    before = stored_lines(stored.row, stored.events, stored.chunk_runs) if stored else iter(())
    try:
        container = container_of(log)
        with open_log(log, max_line) as file:
            reading = LogPass(log, file, container, max_line, stored.mark if stored else None)
            outline = Outline(lambda: reading.scan.seed_length)
            reading.replay((line for line in before if not line.is_provisional), outline.see)
            _read(reading, log.log_id, rows, tail, outline)
            mark = _mark_of(log, reading)
            head, end = fingerprint(file, mark) if mark else ("", "")
    except Unreached as error:
        return Converted(log.log_id, None, unreached=str(error.strerror))
    except OSError as error:
        tail.add_findings([Finding("unreadable_file", f"{log.place}: {error.strerror or error}")], log.log_id)
        return Converted(log.log_id, unreadable_row(log), is_gone=isinstance(error, FileNotFoundError))
    if reading.scan.is_no_log:
        return Converted(log.log_id, None)
    return Converted(log.log_id, log_row(log, reading) | {"proof": proof_of(log, reading, outline)}, mark, head, end)


def _read(reading: LogPass, log_id: str, rows: PartRows, tail: PartRows, outline: Outline) -> None:
    """All rows of a log, each to where it belongs; and its outline."""
    findings, see = reading.scan.findings, outline.see
    for records in reading.record_blocks():
        is_lasting = reading.provisional_from is None
        add = (rows if is_lasting else tail).add
        for record in records:
            add(record, log_id)
            see(record)
        if is_lasting and not reading.scan.is_stopped:
            # The last one stays: the next line may be of its kind.
            rows.add_findings(findings[:-1], log_id)
            del findings[:-1]
    if reading.scan.is_no_log:
        return
    in_lines = findings[: len(findings) - reading.end_findings]
    split = reading.provisional_from
    is_kept = [split is None or finding.line is None or finding.line < split for finding in in_lines]
    rows.add_findings((finding for finding, kept in zip(in_lines, is_kept, strict=True) if kept), log_id)
    tail.add_findings((finding for finding, kept in zip(in_lines, is_kept, strict=True) if not kept), log_id)
    tail.add_findings(findings[len(in_lines) :], log_id)


def _mark_of(log: LogFile, reading: LogPass) -> Mark | None:
    """Where the next reading can go on; None where that could not give the rows of a reading from the start."""
    verdict = reading.verdict
    is_whole = reading.lines.corrupt is None and not reading.scan.is_stopped and log.entry is None
    return reading.lines.mark if is_whole and verdict and not verdict.unread_line_count else None


# What only the file itself could tell, so that it is taken over where the file is gone.
_ONLY_THE_FILE_TELLS = frozenset(("corrupt", "unreadable", "unknown_version", "version_mismatch"))


def _convert_again(log: LogFile, stored: Stored, rows: PartRows, tail: PartRows) -> Converted:
    """Rows of a log that is gone, made anew from its stored lines. Its findings are carried over as they are."""
    scan = new_scan(log)
    for line in stored_lines(stored.row, stored.events, stored.chunk_runs):
        record = scan.feed(*line)
        if record is not None:
            (tail if record.is_provisional else rows).add(record, log.log_id)
    verdict = scan.finish(None)
    # What is stored is no proof of itself.
    row = stored.row | {"parser_version": tables.PARSER_VERSION, "proof": None}
    if not stored.row["unread_line_count"] and stored.row["verdict_reason"] not in _ONLY_THE_FILE_TELLS:
        row |= _judged(verdict)
    return Converted(log.log_id, row)


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
        "parser_version": tables.PARSER_VERSION,
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
        **_judged(verdict),
        "container": reading.container,
        "header": scan.header_line.decode("utf-8", "replace") if scan.header_line is not None else None,
        "decoded_bytes": lines.decoded_bytes,
        "line_count": lines.line_count,
        "is_torn": lines.is_torn,
        "torn_bytes": lines.torn_bytes,
        "is_read": not scan.is_stopped and verdict.dialect is not None,
        "first_event_ms": scan.clock.earliest,
        "last_event_ms": scan.clock.latest,
        "clock_anomaly_count": scan.clock.anomaly_count,
    }


def proof_of(log: LogFile, reading: LogPass, outline: Outline) -> str | None:
    """The proof of a log that was read, as it is stored; None where nothing could be read of it, or too much."""
    header, verdict = reading.scan.header, reading.verdict
    if verdict is None or verdict.dialect is None or outline.is_given_up:
        return None
    version = read_version(header, log.generation)
    return prove(outline.steps, verdict, version, has_header=header is not None).dump()


def _judged(verdict: Verdict) -> dict[str, Any]:
    return {
        "dialect": verdict.dialect,
        "verdict": verdict.verdict,
        "verdict_reason": verdict.reason,
        "verdict_line": verdict.line,
        "has_unknown_required_type": verdict.has_unknown_required_type,
        "inherited_event_count": verdict.inherited_event_count,
        "event_count": verdict.event_count,
        "accepted_event_count": verdict.accepted_event_count,
        "dropped_record_count": verdict.dropped_record_count,
        "unread_line_count": verdict.unread_line_count,
    }
