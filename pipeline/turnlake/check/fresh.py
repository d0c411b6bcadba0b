"""Proofs made anew from the raw logs of a state, whatever the state stored of them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from turnlake.check.outcome import CHECK, Session
from turnlake.errors import SourceError
from turnlake.format.reader import LogPass
from turnlake.lake import workers as engine
from turnlake.lake.convert import Batch, no_collector, proof_of
from turnlake.lake.log_table import rows_of_logs
from turnlake.lake.manifest import manifest_of
from turnlake.lake.state import State
from turnlake.lake.workers import largest_first, make_batches
from turnlake.messages.outline import Outline
from turnlake.rows.writer import Row
from turnlake.sources.container import container_of, open_log
from turnlake.sources.discover import find_logs
from turnlake.sources.logfile import LogFile
from turnlake.sources.remote import is_url
from turnlake.sources.source import Source, parse_source

GONE = "not there any more, or can't be read"
CHANGED = "changed since they were read: `turnlake build` reads them"
UNNAMED = "of a machine whose folder is not known, or in a bucket: name it by --source NAME=PATH or --source URL"


@dataclass(frozen=True)
class Fresh:
    """Proofs as they are stored, by log_id, and of how many logs there is none, by reason."""

    proofs: dict[str, str]
    left_out: Counter[str]


def counting_logs(state: State) -> list[Row]:
    """The rows of `logs` that hold a session: those that count and were read."""
    return [row for row in rows_of_logs(state).values() if row["superseded_by"] is None and row["is_read"]]


def fresh_proofs(
    state: State,
    rows: Sequence[Row],
    named: Iterable[Source],
    workers: int,
    on_logs_done: Callable[[int], None] = lambda count: None,
) -> Fresh:
    """Read these logs of the state again, where they are as they were, `workers` at a time."""
    manifest = manifest_of(state)
    found, left_out = _found(rows, named)
    logs: list[LogFile] = []
    for log in found:
        known = manifest.logs[log.log_id]
        if (log.size, log.mtime_ns) == (known.size, known.mtime_ns):
            logs.append(log)
        else:
            left_out[CHANGED] += 1
    proofs: dict[str, str] = {}
    job = functools.partial(_prove, max_line=manifest.max_line)
    for made in engine.run(job, largest_first(make_batches(logs)), workers):
        proofs |= {log_id: text for log_id, text in made if text is not None}
        on_logs_done(len(made))
    left_out[GONE] += len(logs) - len(proofs)
    return Fresh(proofs, +left_out)


def proved_by_fresh(sessions: Iterable[Session], fresh: Fresh) -> list[Session]:
    """The sessions, each with the fresh proof of its log where there is one."""
    proofs = fresh.proofs
    return [
        replace(one, proof=proofs[one.log_id], proved_by=CHECK) if one.log_id in proofs else one for one in sessions
    ]


def _found(rows: Sequence[Row], named: Iterable[Source]) -> tuple[list[LogFile], Counter[str]]:
    """The files of these logs. A source without a name is its own path; a URL is used only where it is named."""
    sources = {source.name: source for source in named}
    left_out: Counter[str] = Counter()
    wanted = {row["log_id"]: row for row in rows}
    for name in {row["source"] for row in rows if not _needs_name(row)} - sources.keys():
        # The logs of one that is not there are counted as gone.
        with suppress(SourceError):
            sources[name] = parse_source(name)
    found = [log for log in find_logs(list(sources.values())).logs if log.log_id in wanted] if sources else []
    for row in (wanted[log_id] for log_id in wanted.keys() - {log.log_id for log in found}):
        left_out[UNNAMED if _needs_name(row) and row["source"] not in sources else GONE] += 1
    return found, left_out


def _needs_name(row: Row) -> bool:
    # The options of a URL, its endpoint among them, are not stored: without them it may be another's bucket.
    return row["machine"] is not None or is_url(row["source"])


def _prove(batch: Batch, max_line: int) -> list[tuple[str, str | None]]:
    """The proof of each log of a batch, as it is stored."""
    with no_collector():
        return [(log.log_id, _proof(log, max_line)) for log in batch.logs]


def _proof(log: LogFile, max_line: int) -> str | None:
    try:
        with open_log(log, max_line) as file:
            reading = LogPass(log, file, container_of(log), max_line)
            outline = Outline(lambda: reading.scan.seed_length)
            for records in reading.record_blocks():
                for record in records:
                    outline.see(record)
                del reading.scan.findings[:-1]
    except OSError:
        return None
    return proof_of(log, reading, outline)
