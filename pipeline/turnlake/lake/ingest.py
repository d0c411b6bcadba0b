"""Logs -> a new state of the lake: read what is new, reuse the rest, decide which logs count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from turnlake.files import make_folder
from turnlake.findings import Finding
from turnlake.lake import reuse_parts, workers
from turnlake.lake.convert import Batch, Converted, Stored, no_collector
from turnlake.lake.copies import Comparison, LineData, facts_of
from turnlake.lake.files import FINDINGS_PART, LOGS_PART, TAIL_PART, part_after, part_name
from turnlake.lake.log_table import LogTable, stored_logs
from turnlake.lake.manifest import Known, Manifest, dump_manifest
from turnlake.lake.plan import Action, Decision, Options, Plan, plan_ingest
from turnlake.lake.sessions import resolve
from turnlake.lake.state import State
from turnlake.rows.replay import stored_lines
from turnlake.rows.tables import FINDINGS, LOGS, TABLES
from turnlake.rows.writer import Row, finding_row, write_rows, write_table
from turnlake.sources.discover import Discovery
from turnlake.sources.logfile import LogFile


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


class LogOutcome(Enum):
    """What became of a log, once what was decided about it was done."""

    KEPT = "its rows stay as they are"
    READ = "it has new rows only"
    RESUMED = "it has more rows"
    REBUILT = "its rows were made anew from the stored ones"
    NO_LOG = "it was read and is no log"
    VANISHED = "it was found, and gone when it was to be opened: its rows stay, it is missing"
    UNREACHED = "it was found, and its store did not give it: its rows stay"
    DROPPED = "its rows go"
    LOST = "its rows were damaged, and there is nothing to read them from"


# With these the rows go that the state before has of a log.
ROWS_GO = frozenset({LogOutcome.READ, LogOutcome.REBUILT, LogOutcome.NO_LOG, LogOutcome.DROPPED, LogOutcome.LOST})


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
    with no_collector():
        return _Ingest(discovery, work, options, before, plan).run(on_logs_done)


class _Ingest:
    """One run: what it knows of the state before, and what has become of each log so far."""

    def __init__(self, discovery: Discovery, work: Path, options: Options, before: State | None, plan: Plan) -> None:
        self._discovery = discovery
        self._work = work
        self._options = options
        self._plan = plan
        self._before = before
        are_rows_lost = any(part.name == LOGS_PART for part in plan.damaged)
        self._rows = LogTable(None if before is None or are_rows_lost else stored_logs(before))
        self._outcomes: dict[str, LogOutcome] = {}
        # What the new state remembers of each log.
        self._known: dict[str, Known] = {}
        # Why logs that were found could not be opened.
        self._why_not_opened: dict[str, str] = {}
        self._lost: dict[str, str] = {}

    def run(self, on_logs_done: Callable[[int], None]) -> Ingested:
        for table in TABLES:
            make_folder(self._work / table)
        events_before = _event_count(self._rows.values())
        # What runs in other processes comes first: they must be forked before Arrow has threads here.
        batches = self._batches()
        parts = {log.log_id: batch.name for batch in batches for log in batch.logs}
        for converted in workers.convert_all(batches, self._work, self._options):
            for one in converted:
                self._settle(one, parts[one.log_id])
            on_logs_done(len(converted))
        self._settle_others()
        self._reuse_parts([batch.name for batch in batches])
        missing, to_reread = self._missing(), self._to_reread()
        log_ids = self._order(missing)
        comparison = self._compare(log_ids)
        findings = self._findings(comparison)
        write_table(self._work / "logs" / LOGS_PART, LOGS, self._rows.table(log_ids))
        write_rows(self._work / "findings" / FINDINGS_PART, FINDINGS, findings)
        rows = tuple(self._rows[log_id] for log_id in log_ids)
        lost = tuple(self._lost[log_id] for log_id in sorted(self._lost))
        ingested = Ingested(rows, self._read_paths(), _event_count(rows) - events_before, lost)
        manifest = Manifest(
            logs=self._known,
            missing=missing,
            to_reread=to_reread,
            # What vanished is looked for again.
            left_out="" if self._why_not_opened else self._plan.left_out,
            same_start=comparison.answers,
            lost=self._lost,
            max_line=self._options.max_line,
            refused_count=ingested.refused_count,
            is_partial=ingested.is_partial,
        )
        (self._work / "manifest.json").write_bytes(dump_manifest(manifest))
        return replace(ingested, manifest=manifest)

    # What to convert

    def _batches(self) -> list[Batch]:
        """What to convert: logs to be read, and gone ones whose stored rows are made anew."""
        logs: list[LogFile] = []
        stored: dict[str, Stored] = {}
        for log_id, decision in self._plan.to_convert.items():
            match decision:
                case Decision(Action.RESUME, file=LogFile() as file):
                    logs.append(file)
                    stored[log_id] = self._stored(log_id)
                case Decision(Action.REBUILD_FROM_ROWS):
                    logs.append(self._gone_file(log_id))
                    stored[log_id] = replace(self._stored(log_id), mark=None)
                case Decision(file=LogFile() as file):
                    logs.append(file)
        return [
            replace(batch, stored={log.log_id: stored[log.log_id] for log in batch.logs if log.log_id in stored})
            for batch in workers.make_batches(logs, part_after(self._staying_parts()))
        ]

    def _staying_parts(self) -> set[str]:
        """Parts of the state before that hold rows or findings which are to stay."""
        going = (Action.READ, Action.DROP)
        staying = (one.known for one in self._plan.decisions.values() if one.action not in going)
        return {part for known in staying if known is not None for part in known.parts}

    def _stored(self, log_id: str) -> Stored:
        known, before = self._plan.before.logs[log_id], self._before
        assert before is not None  # it is what knows the log
        events, runs = (
            tuple(before.path.absolute() / table / part for part in (*known.parts, TAIL_PART))
            for table in ("events", "chunk_runs")
        )
        return Stored(self._rows.whole(log_id), events, runs, known.mark)

    def _gone_file(self, log_id: str) -> LogFile:
        """A log that is not there any more, as far as its row says."""
        row = self._rows.whole(log_id)
        return LogFile(row["source"], row["machine"], row["path"], "", None, row["bytes"] or 0, 0)

    # What became of each log

    def _settle(self, one: Converted, part: str) -> None:
        """Note what became of a log that was to be converted into this part."""
        log_id, decision = one.log_id, self._plan.decisions[one.log_id]
        file, before = decision.file, decision.known
        match one:
            case Converted(unreached=str(why)):
                self._settle_unopened(log_id, decision, LogOutcome.UNREACHED, why)
            case Converted(is_gone=True):
                why = "it was gone when it was to be opened"
                self._settle_unopened(log_id, decision, LogOutcome.VANISHED, why)
            case Converted(row=None):
                assert file is not None  # what is rebuilt from its rows has some
                self._outcomes[log_id] = LogOutcome.NO_LOG
                self._rows.drop(log_id)
                self._known[log_id] = Known(file.source, file.size, file.mtime_ns, is_log=False)
            case Converted(row=dict(row)):
                self._rows.put(log_id, row)
                if file is None:
                    assert before is not None  # its rows are from there
                    self._outcomes[log_id] = LogOutcome.REBUILT
                    # Its findings stay where they are: only the file could give them again.
                    self._known[log_id] = before._replace(parts=(*before.parts, part))
                    return
                is_resumed = decision.action is Action.RESUME
                self._outcomes[log_id] = LogOutcome.RESUMED if is_resumed else LogOutcome.READ
                parts = (*before.parts, part) if is_resumed and before is not None else (part,)
                place = (file.source, file.size, file.mtime_ns)
                self._known[log_id] = Known(*place, parts, mark=one.mark, head=one.head, tail=one.tail)

    def _settle_unopened(self, log_id: str, decision: Decision, outcome: LogOutcome, why: str) -> None:
        """A log that was found and not opened stays as it was, if it was known; else it is as if never seen."""
        self._why_not_opened[log_id] = why
        known = decision.known
        if decision.is_damaged:
            self._lose(log_id, known)
            return
        self._outcomes[log_id] = outcome
        if known is not None and known.is_log:
            self._known[log_id] = known

    def _settle_others(self) -> None:
        """Note what becomes of the logs that were not converted, and of those that were lost before."""
        for log_id, decision in self._plan.decisions.items():
            match decision:
                case Decision(Action.KEEP, known=Known() as known):
                    self._outcomes[log_id] = LogOutcome.KEPT
                    self._known[log_id] = known
                case Decision(Action.DROP, reason="lost"):
                    self._lose(log_id, decision.known)
                case Decision(Action.DROP):
                    self._outcomes[log_id] = LogOutcome.DROPPED
                    self._rows.drop(log_id)
        if not self._options.purge_missing:
            self._lost = {**self._plan.before.lost, **self._lost}
        self._lost = {log_id: place for log_id, place in self._lost.items() if not self._was_opened(log_id)}

    def _lose(self, log_id: str, known: Known | None) -> None:
        self._outcomes[log_id] = LogOutcome.LOST
        row = self._rows.drop(log_id)
        if known is not None and known.is_log:
            self._lost[log_id] = f"{known.source}: {row['path'] if row else f'log {log_id}'}"

    def _was_opened(self, log_id: str) -> bool:
        """Whether the log is there, as far as this build knows."""
        decision = self._plan.decisions.get(log_id)
        return decision is not None and decision.file is not None and log_id not in self._why_not_opened

    def _missing(self) -> frozenset[str]:
        """Logs that the new state knows, and that are gone."""
        return frozenset(
            log_id
            for log_id in self._known
            if self._outcomes[log_id] is LogOutcome.VANISHED or self._plan.decisions[log_id].reason == "missing"
        )

    def _to_reread(self) -> frozenset[str]:
        """Logs whose rows are not what reading them now would give."""
        to_reread = set(self._plan.before.to_reread)
        if self._plan.is_stale:
            to_reread |= {log_id for log_id, one in self._plan.decisions.items() if one.file is None}
        for log_id, decision in self._plan.to_convert.items():
            match self._outcomes[log_id], decision.file:
                case ((LogOutcome.VANISHED | LogOutcome.UNREACHED), _):
                    to_reread.add(log_id)
                # Inside an archive it is the content that can't be read: it would fail again.
                case ((LogOutcome.READ | LogOutcome.RESUMED), LogFile(entry=None)) if self._is_unreadable(log_id):
                    to_reread.add(log_id)
                case ((LogOutcome.READ | LogOutcome.RESUMED | LogOutcome.NO_LOG), _):
                    to_reread.discard(log_id)
        return frozenset(to_reread & self._known.keys())

    def _is_unreadable(self, log_id: str) -> bool:
        return bool(self._rows[log_id]["verdict_reason"] == "unreadable")

    def _read_paths(self) -> tuple[tuple[str, str], ...]:
        read = (LogOutcome.READ, LogOutcome.RESUMED)
        return tuple(
            (one.file.path, one.reason)
            for log_id, one in self._plan.to_convert.items()
            if one.file is not None and self._outcomes[log_id] in read
        )

    # Parts

    def _reuse_parts(self, new: Sequence[str]) -> None:
        """Bring the parts of the state before over, write the tail, merge what has become many small parts."""
        folder = self._before.path if self._before else None
        outcomes = self._outcomes
        going = {log_id for log_id, outcome in outcomes.items() if outcome in ROWS_GO}
        # Only the file could give the findings of a log again.
        keep_findings = {log_id for log_id in going if outcomes[log_id] is LogOutcome.REBUILT}
        not_opened = self._why_not_opened.keys()
        names = self._reused_names(new)
        before = self._plan.before.logs
        for name, new_name in sorted(names.items()):
            assert folder is not None  # parts are known from the state before
            inside = {log_id for log_id in going if log_id in before and name in before[log_id].parts}
            reuse_parts.reuse_part(name, folder, self._work, inside, inside - keep_findings, new_name)
        for log_id in not_opened & self._known.keys():
            known = self._known[log_id]
            self._known[log_id] = known._replace(parts=tuple(names[part] for part in known.parts))
        in_tail = going | {log_id for log_id, outcome in outcomes.items() if outcome is LogOutcome.RESUMED}
        if any(part.name == TAIL_PART for part in self._plan.damaged):
            folder = None
        without_findings = in_tail - keep_findings
        reuse_parts.write_tail(TAIL_PART, folder, new, self._work, in_tail, without_findings, not_new=not_opened)
        self._merge_small_parts(new)

    def _reused_names(self, new: Sequence[str]) -> dict[str, str]:
        """The parts of the state before that are reused, and what they are called in the new one."""
        names = {name: name for name in self._staying_parts()}
        # Of logs that were to be read from their start and could not be opened: new parts may have got their names.
        unopened = self._why_not_opened.keys() & self._known.keys()
        others = {part for log_id in unopened for part in self._known[log_id].parts} - names.keys()
        first = part_after([*names, *new])
        return names | {name: part_name(first + n) for n, name in enumerate(sorted(others))}

    def _merge_small_parts(self, new: Sequence[str]) -> None:
        names = {part for known in self._known.values() for part in known.parts} | set(new)
        small = reuse_parts.small_parts(names, self._work)
        if not small:
            return
        merged = part_name(part_after(names))
        reuse_parts.merge_parts(small, merged, self._work)
        for log_id, known in self._known.items():
            self._known[log_id] = known._replace(parts=_renamed(known.parts, small, merged))

    # What depends on all logs together

    def _order(self, missing: Collection[str]) -> list[str]:
        """The log_ids of all logs of the lake in their order; missing ones are marked so."""
        log_ids = [log_id for log_id in self._known if log_id in self._rows]
        for log_id in log_ids:
            is_missing = log_id in missing
            if self._rows[log_id]["is_missing"] != is_missing:
                self._rows.set(log_id, {"is_missing": is_missing})
        return sorted(log_ids, key=lambda log_id: (self._rows[log_id]["source"], self._rows[log_id]["path"]))

    def _compare(self, log_ids: Iterable[str]) -> Comparison:
        """Set in each row what depends on the other logs; how they were compared, and what was found."""
        decisions = self._plan.decisions
        comparison = Comparison(
            files={log_id: one.file for log_id, one in decisions.items() if one.file is not None},
            read={log_id for log_id in self._plan.to_convert if decisions[log_id].file is not None},
            remembered=self._plan.before.same_start,
            stored_lines=self._stored_lines,
        )
        resolution = resolve((facts_of(self._rows[log_id]) for log_id in log_ids), comparison.same_start)
        for log_id, resolved in resolution.by_log_id.items():
            row = self._rows[log_id]
            if resolved != (row.get("session_id"), row.get("superseded_by"), row.get("superseded_why")):
                self._rows.set(log_id, resolved._asdict())
        comparison.findings += resolution.findings
        return comparison

    def _stored_lines(self, log_id: str) -> Iterable[LineData]:
        """The durable lines of a log that is gone, from its rows."""
        stored = self._stored(log_id)
        lines = stored_lines(stored.row, stored.events, stored.chunk_runs)
        return (line.data for line in lines if line.number > 1 and not line.is_provisional)

    def _findings(self, comparison: Comparison) -> list[Row]:
        """Findings about several logs and about places, and what was found under the name of a log and is none."""
        rows = [finding_row(finding, log_id) for log_id, finding in comparison.findings]
        by_place = self._log_ids_by_place() if self._discovery.findings or self._why_not_opened else {}
        rows += [finding_row(finding, by_place.get(place)) for place, finding in self._discovery.findings]
        for log_id, decision in self._plan.decisions.items():
            if (file := decision.file) is None:
                continue
            if (why := self._why_not_opened.get(log_id)) is not None:
                finding = Finding("unreadable_file", f"{file.place}: {why}")
                rows.append(finding_row(finding, by_place.get(file.place)))
            elif not self._known[log_id].is_log:
                rows.append(finding_row(Finding("not_a_log", file.place), None))
        rows += [finding_row(Finding("lost_log", place), None) for _, place in sorted(self._lost.items())]
        return rows

    def _log_ids_by_place(self) -> Mapping[str, str]:
        return {log.place: log.log_id for log in self._discovery.logs if log.log_id in self._rows}


def _event_count(rows: Iterable[Row]) -> int:
    return sum(row.get("event_count") or 0 for row in rows)


def _renamed(parts: tuple[str, ...], small: Collection[str], merged: str) -> tuple[str, ...]:
    """The parts with one name for all that were merged."""
    kept = tuple(part for part in parts if part not in small)
    return kept if len(kept) == len(parts) else (*kept, merged)
