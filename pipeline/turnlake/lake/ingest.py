"""Logs -> a new state of the lake: read what is new, carry over the rest, decide which logs count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.files import make_folder
from turnlake.findings import Finding
from turnlake.lake import carry
from turnlake.lake import workers as engine
from turnlake.lake.batches import make_batches, part_after, part_name
from turnlake.lake.checkpoints import Known
from turnlake.lake.convert import Batch, Converted, Stored
from turnlake.lake.copies import Records, records_of, starts_with
from turnlake.lake.logtable import LogTable
from turnlake.lake.manifest import Manifest, dump_manifest
from turnlake.lake.plan import Options, Plan, plan_ingest
from turnlake.lake.sessions import LogFacts, resolve
from turnlake.lake.state import State
from turnlake.rows.replay import stored_lines
from turnlake.rows.tables import FINDINGS, LOGS, TABLES
from turnlake.rows.writer import Row, finding_row, write_rows, write_table
from turnlake.sources.discover import Discovery
from turnlake.sources.logfile import LogFile

LOGS_PART = "logs.parquet"
# Findings about more than one log, or about no log at all.
FINDINGS_PART = "lake.parquet"
# What the next reading of a log replaces.
TAIL_PART = "tail.parquet"


@dataclass(frozen=True)
class Ingested:
    """What an ingest wrote below its work folder: all tables and the manifest.

    `logs` are the rows of `logs`, of logs that stayed as they were only what decides about them (see `LogTable`).
    `read` are the paths of the logs that were read, each with why; `events_added` counts readable events more
    than before; `lost` are the places of logs that are gone and whose rows were in damaged files.
    `manifest` is what the next ingest goes by.
    """

    logs: tuple[Row, ...]
    read: tuple[tuple[str, str], ...]
    events_added: int

    lost: tuple[str, ...] = ()
    manifest: Manifest = field(default_factory=Manifest)

    @property
    def refused_count(self) -> int:
        """Logs that the harness would refuse."""
        return sum(row["verdict"] == "refused" for row in self.logs)

    @property
    def is_partial(self) -> bool:
        """Whether a log was refused, torn, lost, or has lines that gave no row."""
        if self.lost:
            return True
        return any(row["verdict"] != "clean" or row.get("is_torn") or row.get("unread_line_count") for row in self.logs)


def ingest(
    discovery: Discovery,
    work: Path,
    options: Options,
    on_logs_done: Callable[[int], None] = lambda count: None,
    before: State | None = None,
    plan: Plan | None = None,
) -> Ingested:
    """Write the tables of a new state below work. `on_logs_done` is told how many more logs are read."""
    plan = plan or plan_ingest(discovery, before, options)
    return _Ingest(discovery, work, options, before, plan).run(on_logs_done)


class _Ingest:
    """One run: what it knows of the state before, and what it has found out so far."""

    def __init__(self, discovery: Discovery, work: Path, options: Options, before: State | None, plan: Plan) -> None:
        self._discovery = discovery
        self._work = work
        self._options = options
        self._plan = plan
        self._before = before
        self._manifest = plan.before
        are_rows_lost = any(part.name == LOGS_PART for part in plan.damaged)
        self._rows = LogTable(None if before is None or are_rows_lost else stored_logs(before))
        self._files = {log.log_id: log for log in discovery.logs}
        # Logs that were found and could not be opened: they are gone by now, or, told why, their store gave none.
        self._vanished: set[str] = set()
        self._unreached: dict[str, str] = {}
        self._same_start: dict[tuple[str, str], bool] = {}
        self._lost: dict[str, str] = {}

    def run(self, on_logs_done: Callable[[int], None]) -> Ingested:
        for table in TABLES:
            make_folder(self._work / table)
        events_before = _event_count(self._rows.values())
        kept = self._kept()
        known = {log_id: entry for log_id, entry in self._manifest.logs.items() if log_id in kept}
        # What runs in other processes comes first: they must be forked before Arrow has threads here.
        batches = self._batches()
        known |= self._convert(batches, on_logs_done)
        self._lost = self._lost_logs()
        known = self._carry(known, batches)
        logs = self._logs(known)
        findings = self._decide(logs) + self._findings_of_discovery(known)
        write_table(self._work / "logs" / LOGS_PART, LOGS, self._rows.table(logs))
        write_rows(self._work / "findings" / FINDINGS_PART, FINDINGS, findings)
        rows = tuple(self._rows[log_id] for log_id in logs)
        read_now = self._rows.keys() - self._vanished
        read = tuple((log.path, str(why)) for log, why in self._plan.read.values() if log.log_id in read_now)
        lost = tuple(self._lost[log_id] for log_id in sorted(self._lost))
        ingested = Ingested(rows, read, _event_count(rows) - events_before, lost)
        manifest = Manifest(
            logs=known,
            missing=self._missing(),
            due=self._due(known),
            # What vanished is looked for again.
            left_out="" if self._vanished else self._plan.left_out,
            same_start=self._same_start,
            lost=self._lost,
            max_line=self._options.max_line,
            refused_count=ingested.refused_count,
            is_partial=ingested.is_partial,
        )
        (self._work / "manifest.json").write_bytes(dump_manifest(manifest))
        return replace(ingested, manifest=manifest)

    def _kept(self) -> set[str]:
        """Logs of the state before whose rows stay, be it with more to come."""
        return set(self._manifest.logs) - self._plan.gone

    def _batches(self) -> list[Batch]:
        """What to convert: logs to be read, and gone ones whose stored rows are made anew."""
        plan = self._plan
        logs = [log for log, _ in plan.read.values()] + [self._gone_file(log_id) for log_id in sorted(plan.replayed)]
        stored = {log_id: self._stored(log_id) for log_id, (_, why) in plan.read.items() if why == "grown"}
        stored |= {log_id: replace(self._stored(log_id), mark=None) for log_id in plan.replayed}
        batches = make_batches(logs, part_after(self._staying_parts()))
        return [
            replace(batch, stored={log.log_id: stored[log.log_id] for log in batch.logs if log.log_id in stored})
            for batch in batches
        ]

    def _staying_parts(self) -> set[str]:
        """Parts of the state before that hold rows which stay."""
        staying = self._kept() | self._plan.replayed
        return {part for log_id in staying for part in self._manifest.logs[log_id].parts}

    def _stored(self, log_id: str) -> Stored:
        known, before = self._manifest.logs[log_id], self._before
        assert before is not None  # it is what knows the log
        events, runs = (
            tuple(before.path.absolute() / table / part for part in (*known.parts, TAIL_PART))
            for table in ("events", "chunk_runs")
        )
        return Stored(self._rows.whole(log_id), events, runs, known.mark)

    def _gone_file(self, log_id: str) -> LogFile:
        """A log that is not there any more, as far as its row tells it."""
        row = self._rows.whole(log_id)
        return LogFile(row["source"], row["machine"], row["path"], "", None, row["bytes"] or 0, 0)

    def _convert(self, batches: Sequence[Batch], on_logs_done: Callable[[int], None]) -> dict[str, Known]:
        """Convert everything; sets the rows of all logs read and returns what to remember of them."""
        known: dict[str, Known] = {}
        parts = {log.log_id: batch.name for batch in batches for log in batch.logs}
        for converted in engine.convert_all(batches, self._work, self._options):
            for one in converted:
                if one.unreached is not None:
                    self._unreached[one.log_id] = one.unreached
                if one.is_gone or one.unreached is not None:
                    known |= self._keep(one.log_id)
                else:
                    known[one.log_id] = self._remember(one, parts[one.log_id])
            on_logs_done(len(converted))
        return known

    def _keep(self, log_id: str) -> dict[str, Known]:
        """A log that was found and not opened stays as it was, if it was known; else it is as if never seen."""
        self._vanished.add(log_id)
        before = self._manifest.logs.get(log_id)
        is_kept = before is not None and before.is_log and log_id not in self._plan.spoilt
        return {log_id: before} if before is not None and is_kept else {}

    def _lost_logs(self) -> dict[str, str]:
        """Places of logs that can't be read again and had rows in damaged files, now or before."""
        found = self._files.keys() - self._vanished
        lost = {} if self._options.purge_missing else dict(self._manifest.lost)
        for log_id in self._plan.spoilt - found:
            known, row = self._manifest.logs[log_id], self._rows.drop(log_id)
            if known.is_log:
                lost[log_id] = f"{known.source}: {row['path'] if row else f'log {log_id}'}"
        return {log_id: place for log_id, place in lost.items() if log_id not in found}

    def _missing(self) -> frozenset[str]:
        gone = self._vanished - self._unreached.keys()
        return self._plan.missing | {log_id for log_id in gone if log_id in self._rows}

    def _gone(self) -> frozenset[str]:
        """Logs of the state before whose rows, as they are stored there, go."""
        return (self._plan.gone & self._manifest.logs.keys()) - (self._vanished - self._lost.keys())

    def _due(self, known: Mapping[str, Known]) -> frozenset[str]:
        """Logs whose rows are not what reading them now would give."""
        unreadable = {
            log_id
            for log_id, (log, _) in self._plan.read.items()
            # Inside an archive it is the content that can't be read: it would fail again.
            if log.entry is None and log_id in self._rows and self._rows[log_id]["verdict_reason"] == "unreadable"
        }
        before = self._manifest.due - (self._plan.read.keys() - self._vanished)
        return frozenset((unreadable | before | self._plan.due | self._vanished) & known.keys())

    def _remember(self, one: Converted, part: str) -> Known:
        if one.row is None:
            self._rows.drop(one.log_id)
        else:
            self._rows.put(one.log_id, one.row)
        is_grown = one.log_id not in self._plan.gone and one.log_id in self._manifest.logs
        parts = (*self._manifest.logs[one.log_id].parts, part) if is_grown else (part,)
        file = self._files.get(one.log_id)
        if file is None:
            # Its findings stay where they are: only the file could give them again.
            before = self._manifest.logs[one.log_id]
            return before._replace(parts=(*before.parts, part))
        if one.row is None:
            return Known(file.source, file.size, file.mtime_ns, (), False, None, "", "")
        return Known(file.source, file.size, file.mtime_ns, parts, True, one.mark, one.head, one.tail)

    def _carry(self, known: dict[str, Known], batches: Sequence[Batch]) -> dict[str, Known]:
        """Bring the parts of the state before over, write the tail, merge what has become many small parts."""
        folder = self._before.path if self._before else None
        gone = self._gone()
        new = [batch.name for batch in batches]
        carried = self._carried_parts(new)
        for name, new_name in sorted(carried.items()):
            assert folder is not None  # parts are known from the state before
            inside = {log_id for log_id in gone if name in self._manifest.logs[log_id].parts}
            carry.carry_part(name, folder, self._work, inside, inside - self._plan.replayed, new_name)
        for log_id in self._vanished & known.keys():
            known[log_id] = known[log_id]._replace(parts=tuple(carried[part] for part in known[log_id].parts))
        reread = (gone | self._plan.read.keys()) - (self._vanished - self._lost.keys())
        is_tail_damaged = any(part.name == TAIL_PART for part in self._plan.damaged)
        folder = None if is_tail_damaged else folder
        carry.write_tail(TAIL_PART, folder, new, self._work, reread, reread - self._plan.replayed, self._vanished)
        names = {part for entry in known.values() for part in entry.parts} | {batch.name for batch in batches}
        small = carry.small_parts(names, self._work)
        if not small:
            return known
        merged = part_name(part_after(names))
        carry.merge_parts(small, merged, self._work)
        return {log_id: entry._replace(parts=_renamed(entry.parts, small, merged)) for log_id, entry in known.items()}

    def _carried_parts(self, new: Sequence[str]) -> dict[str, str]:
        """The parts of the state before that are carried over, and what they are called in the new one."""
        carried = {name: name for name in self._staying_parts()}
        # Of logs that were to be read anew, and vanished: new parts may have got their names.
        kept = {part for log_id in self._vanished & self._rows.keys() for part in self._manifest.logs[log_id].parts}
        first = part_after([*carried, *new])
        return carried | {name: part_name(first + n) for n, name in enumerate(sorted(kept - carried.keys()))}

    def _logs(self, known: dict[str, Known]) -> list[str]:
        """The log_ids of all logs of the lake in their order; missing ones are marked so."""
        logs = [log_id for log_id in known if log_id in self._rows]
        missing = self._missing()
        for log_id in logs:
            self._rows.set(log_id, {"is_missing": log_id in missing})
        return sorted(logs, key=lambda log_id: (self._rows[log_id]["source"], self._rows[log_id]["path"]))

    def _decide(self, logs: Iterable[str]) -> list[Row]:
        """Set in each row what depends on the other logs; the findings that this gave."""
        findings: list[Row] = []

        def same_start(longer: str, shorter: str) -> bool:
            try:
                return self._starts_with(longer, shorter)
            except OSError as error:
                detail = f"{longer} and {shorter} can't be compared: {error.strerror or error}"
                findings.append(finding_row(Finding("unreadable_file", detail), longer))
                return False

        resolution = resolve((_facts(self._rows[log_id]) for log_id in logs), same_start)
        for log_id, resolved in resolution.by_log_id.items():
            self._rows.set(log_id, resolved._asdict())
        return findings + [finding_row(finding, log_id) for log_id, finding in resolution.findings]

    def _starts_with(self, longer: str, shorter: str) -> bool:
        """Whether one log begins with another. Compares the files only where one of the two was read this time."""
        pair = (longer, shorter)
        answer = None if self._plan.read.keys() & pair else self._manifest.same_start.get(pair)
        if answer is None:
            answer = starts_with(self._records(longer), self._records(shorter))
            if not self._files.keys() >= set(pair):
                return answer  # stored rows may tell less than files
        self._same_start[pair] = answer
        return answer

    def _records(self, log_id: str) -> Records:
        """The records of a log: from its file, or from its stored rows where that is gone."""
        file = self._files.get(log_id)
        if file is not None:
            return records_of(file)
        stored = self._stored(log_id)
        lines = stored_lines(stored.row, stored.events, stored.chunk_runs)
        return (line.data for line in lines if line.number > 1 and not line.is_provisional)

    def _findings_of_discovery(self, known: Mapping[str, Known]) -> list[Row]:
        """Findings about places, and what was found under the name of a log and is none."""
        by_place = self._log_ids_by_place() if self._discovery.findings or self._vanished else {}
        found = [finding_row(finding, by_place.get(place)) for place, finding in self._discovery.findings]
        for log in self._discovery.logs:
            if log.log_id in self._vanished:
                why = self._unreached.get(log.log_id, "it was gone when it was to be opened")
                detail = f"{log.place}: {why}"
                found.append(finding_row(Finding("unreadable_file", detail), by_place.get(log.place)))
            elif not known[log.log_id].is_log:
                found.append(finding_row(Finding("not_a_log", log.place), None))
        found += [finding_row(Finding("lost_log", place), None) for _, place in sorted(self._lost.items())]
        return found

    def _log_ids_by_place(self) -> dict[str, str]:
        return {log.place: log.log_id for log in self._discovery.logs if log.log_id in self._rows}


def rows_of_logs(state: State) -> dict[str, Row]:
    """The rows of `logs` in a state, by log_id."""
    rows: list[Row] = stored_logs(state).to_pylist()
    return {row["log_id"]: row for row in rows}


def stored_logs(state: State) -> pa.Table:
    """The rows of `logs` in a state, as they are stored."""
    # Neither threads nor read-ahead: worker processes may be forked after this.
    return pq.ParquetFile(state.path / "logs" / LOGS_PART, pre_buffer=False).read(use_threads=False)


def _event_count(rows: Iterable[Row]) -> int:
    return sum(row.get("event_count") or 0 for row in rows)


def _renamed(parts: tuple[str, ...], small: Collection[str], merged: str) -> tuple[str, ...]:
    """The parts with one name for all that were merged."""
    kept = tuple(part for part in parts if part not in small)
    return kept if len(kept) == len(parts) else (*kept, merged)


def _facts(row: Row) -> LogFacts:
    return LogFacts(
        log_id=row["log_id"],
        source=row["source"],
        path=row["path"],
        folder=row["path"].rpartition("/")[0],
        generation=row["generation"],
        header_id=row.get("header_id"),
        created_at_ms=row.get("created_at_ms"),
        format_version=row.get("format_version"),
        record_count=row.get("line_count") or 0,
        event_count=row.get("event_count") or 0,
        last_event_ms=row.get("last_event_ms"),
        is_read=row["is_read"],
        container=row.get("container") or "raw",
        is_missing=row["is_missing"],
    )
