"""One pass over a log's lines: records out, and at the end the verdict.

Reading is generous and the verdict is strict: every line that can be understood becomes a record, whatever
the harness would do with it. What the harness accepts are the first `accepted_event_count` events of branch
0, or none in a refused log.
"""

from __future__ import annotations

from typing import Any

import orjson

from turnlake.findings import Finding
from turnlake.format import tutorial
from turnlake.format.clock import Clock
from turnlake.format.envelope import KEYS, is_replace
from turnlake.format.header import Header
from turnlake.format.legacy import MAY_BE_OLD, Legacy
from turnlake.format.record import Record
from turnlake.format.runs import PACKED_TYPES, Run, packed_run, single_run, stream_runs
from turnlake.format.sources import Ranges, decode_sources
from turnlake.format.start import LogName, Start
from turnlake.format.values import (
    MAX_SAFE,
    BadRecord,
    Object,
    check_depth,
    is_count,
    is_int,
    parse_leniently,
)
from turnlake.format.verdict import Judge, Verdict
from turnlake.sources.lines import Overlong

_WITH_STREAM = frozenset(("assistant/message", "assistant/attempt"))
_CHUNK_KEYS = {"turn", "step", "chunk"}
# The members of events in the order in which the harness writes them, and whether they are those of a surface event.
_PLAIN_MEMBERS = {
    ("type", "seq", "time", "data"): False,
    ("type", "seq", "time", "data", "surfaceOp"): True,
    ("type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp"): True,
}
WENT_BACK = "the time is less than that of the event before"


class Scan:
    """The state of one log while its lines are read in order with `feed`; `finish` gives the verdict."""

    def __init__(self, name: LogName) -> None:
        self.clock = Clock()
        self._judge = Judge()
        self._start = Start(name, self._judge)
        self._version = 0
        self._has_trait = False
        self._has_marker = False
        self._cut = self._events = self._unread = 0
        self._next_seq = 0
        self._is_provisional = self._is_odd = False
        self._begin(0)

    @property
    def findings(self) -> list[Finding]:
        """What was found so far; whoever takes them may clear the list."""
        return self._judge.findings

    @property
    def header(self) -> Header | None:
        """The header; None before it is read, and where there is none."""
        return self._start.header

    @property
    def header_line(self) -> bytes | None:
        """The header as written."""
        return self._start.header_line

    @property
    def is_stopped(self) -> bool:
        """No further line may be read."""
        return self._start.is_stopped

    @property
    def is_no_log(self) -> bool:
        """The file holds something else."""
        return self._start.is_no_log

    @property
    def seed_length(self) -> int | None:
        """The header's seedLength; None before the header, and where it states none."""
        return self.header.seed_length if self.header is not None else None

    def _begin(self, version: int) -> None:
        session = (self.header and self.header.id) or self._start.name.stem
        self._version = version
        self._legacy = Legacy(session)
        self._tutorial = tutorial.Tutorial(session)

    def feed(
        self, line: int, offset: int, raw: bytes | Overlong, is_provisional: bool, value: Any = None
    ) -> Record | None:
        """The record in the next line; None for the header and where a finding says what is wrong.

        value is what orjson made of the line, where it was asked already.
        """
        judge = self._judge
        judge.line, judge.offset, judge.raw = line, offset, raw
        judge.records += 1
        self._is_provisional, self._is_odd = is_provisional, False
        try:
            if value is None:
                value = self._parsed(raw)
            if line == 1 and self._take_header(value):
                judge.records = 0
                return None
            return self._record(value)
        except BadRecord as error:
            self._bad(str(error), value)
            return None

    def stand(self) -> tuple[int, int, int | None, int | None] | None:
        """The next seq, the time of the event before, the open turn and step; None where no plain chunks may come.

        They may in the session's own part of an accepted log of v0 or v1, behind an event.
        """
        judge, before = self._judge, self.clock.before
        if judge.issue is not None or self.header is None or self._version >= 2 or self.is_stopped:
            return None
        if self._next_seq < self._cut or before > MAX_SAFE:
            return None
        return self._next_seq, before, *judge.invariants.open_step

    def note_plain_chunks(
        self, records: int, next_seq: int, time: int, run_type: str, chunk: Object | None, *place: Any
    ) -> None:
        """Go on behind some records that are chunks of the open step, as `stand` would have them.

        `time` and `run_type` are those of the last one, `place` its line, offset and bytes, and `chunk` itself where it
        stands alone and tells of usage or finish, as none before it does.
        """
        judge, first = self._judge, self._next_seq
        judge.line, judge.offset, judge.raw = place
        judge.records += records
        run = Run(run_type, time, time, chunk=chunk)
        run.turn, run.step = judge.invariants.open_step
        self._events += next_seq - first
        self._next_seq = judge.accepted = next_seq
        if (breach := judge.invariants.note_chunks(first, run, next_seq - first)) is not None:
            judge.note_breach(breach, next_seq - 1, "assistant/chunk")
        self.clock.before = time

    def _record(self, value: Any) -> Record:
        kind = value.get("type") if type(value) is dict else None
        if type(kind) is not str or not kind:
            raise BadRecord("no object with a type")
        if kind in PACKED_TYPES:
            return self._packed(value)
        check_depth(self._judge.raw, value)  # type: ignore[arg-type] # an overlong line did not come this far
        if (record := self._plain_event(value, kind)) is not None:
            return record
        if kind == "assistant/chunk" and self._version < 2 and (record := self._chunk(value)) is not None:
            return record
        if kind == "turn/end" and self._judge.issue is not None:
            self._judge.refuse("corrupt", "corrupt_middle", "a turn/end follows the first bad record")
        return self._event(value, kind)

    def finish(self, corrupt: Finding | None) -> Verdict:
        """The verdict once all lines are read; corrupt is what is wrong with the container."""
        judge = self._judge
        if corrupt is not None:
            judge.findings.append(corrupt)
            judge.refusal = judge.refusal or ("corrupt", None)
        if not judge.line:
            self._start.is_no_log = self._start.name.generation is None
            self._start.lacks_header("no complete line")
        self._check_lineage()
        judge.finish()
        verdict, (reason, line) = "clean", (None, None)
        if judge.issue is not None:
            verdict, (reason, line) = "removable_tail", judge.issue
        if judge.refusal is not None:
            verdict, (reason, line) = "refused", judge.refusal
        return Verdict(
            verdict=verdict,
            reason=reason,
            line=line,
            dialect=self._dialect(),
            accepted_event_count=0 if judge.refusal else judge.accepted,
            inherited_event_count=self._cut,
            event_count=self._events,
            dropped_record_count=judge.records - judge.records_before_issue if judge.issue else 0,
            unread_line_count=self._unread,
            has_unknown_required_type=judge.has_unknown_required_type,
        )

    def _dialect(self) -> str | None:
        if self.is_stopped or (self.header is None and not self._events):
            return None
        if self.header is not None:
            return "mixed" if self._has_trait else "real"
        return "tutorial" if self._has_trait or self._start.name.generation is None else "headerless"

    def _take_header(self, value: Any) -> bool:
        """True where the first line is a header; all that follows is read by its version."""
        start = self._start
        is_taken = start.take(value, self._judge.raw, is_odd=self._is_odd)
        if start.header is not None and not start.is_stopped:
            self._begin(start.version)
            self._cut = (start.header.seed_length or 0) if start.version < 2 else 0
        return is_taken

    def _check_lineage(self) -> None:
        header, judge = self.header, self._judge
        if header is None or self.is_stopped:
            return
        if self._version < 2 and self._cut > judge.accepted and judge.refusal is None:
            judge.refuse("invariant", "INV-43", f"seedLength {self._cut} of {judge.accepted} events")
        if self._version >= 2 and header.is_seeded is not self._has_marker:
            judge.refuse("invariant", "INV-43", "the header and the inherited end-seed contradict each other")

    # Records

    def _packed(self, value: Object) -> Record:
        raw = self._judge.raw
        run = packed_run(value, raw if isinstance(raw, bytes) else b"")
        if self._version >= 2:
            self._judge.open_issue("bad_record", "packed row in a format without them")
        return self._run_record(value, int(value["seq0"]), run, keep_line=False)

    def _chunk(self, value: Object) -> Record | None:
        """An assistant/chunk event, the most frequent line of all; None where it is no proper one."""
        data, seq = value.get("data"), value.get("seq")
        if type(data) is not dict or type(seq) is not int or not 0 <= seq <= MAX_SAFE:
            return None
        run = single_run(data.get("chunk"), value.get("time"))
        turn, step = data.get("turn"), data.get("step")
        if run is None or not is_count(turn) or not is_count(step):
            return None
        run.turn, run.step = turn, step
        is_odd = len(value) != 4 or data.keys() != _CHUNK_KEYS
        record = self._run_record(value, seq, run, keep_line=is_odd)
        if is_odd and self._judge.issue is None and self.header is not None:
            self._judge.judge_alone(value, None)
        return record

    def _run_record(self, value: Object, seq: int, run: Run, *, keep_line: bool) -> Record:
        judge, clock = self._judge, self.clock
        count = 1 if run.texts is None else len(run.texts)
        self._place(seq, count, "assistant/chunk")
        if judge.issue is None and (breach := judge.invariants.note_chunks(seq, run, count)) is not None:
            judge.note_breach(breach, seq, "assistant/chunk")
        if run.time_ms >= clock.before and run.is_rising and seq >= self._cut:
            clock.before = run.last_time_ms
        elif seq >= self._cut and (went_back := clock.see_run(run)):
            judge.count("clock_went_back", WENT_BACK, None, seq, went_back)
        return Record(
            judge.line,
            judge.offset,
            judge.raw,  # type: ignore[arg-type] # an overlong line gives no record
            self._is_provisional,
            judge.branch,
            seq,
            run.time_ms,
            value,
            run,
            keep_line or self._is_odd,
            self._is_odd,
        )

    def _event(self, value: Object, kind: str) -> Record:
        judge, written = self._judge, value
        if self.header is None:
            value = self._without_header(value)
        seq = value.get("seq")
        if not is_count(seq):
            raise BadRecord("without a sequence number")
        seq = int(seq)
        self._place(seq, 1, kind)
        sources = self._sources(value) if "sourceEventSeqs" in value else None
        event, normalised_from = value, None if value is written else "tutorial"
        if self._version < 2 and kind in MAY_BE_OLD:
            event = self._of_today(value, seq)
            normalised_from = normalised_from or ("legacy" if event is not value else None)
        stream = self._stream(event, seq) if kind in _WITH_STREAM else None
        judge.judge(event, sources)
        if kind == "session/end-seed":
            self._notice_cut(event, seq)
        time = self._see_time(event, seq)
        has_odd_members = not KEYS.issuperset(written) or time is None
        if self.header is not None and tutorial.has_trait(event, has_odd_members):
            self._has_trait = True
            event, normalised_from = self._tutorial.normalise(event, seq, time), "tutorial"
        return Record(
            judge.line,
            judge.offset,
            judge.raw,  # type: ignore[arg-type] # an overlong line gives no record
            self._is_provisional,
            judge.branch,
            seq,
            time,
            event,
            None,
            event is not written or has_odd_members or self._has_odd_replace(event),
            self._is_odd,
            sources,
            stream,
            judge.is_known(event["type"]),
            normalised_from,
        )

    def _plain_event(self, value: Object, kind: str) -> Record | None:
        """An event that is just as the harness writes it and follows as it should; None for any other.

        Nearly all are. `_event` would come to the same, by more steps.
        """
        judge, members = self._judge, _PLAIN_MEMBERS.get(tuple(value))
        if members is None or judge.plain_types.get(kind) is not members or judge.issue is not None or self._is_odd:
            return None
        seq, time, data = value["seq"], value["time"], value["data"]
        if not type(seq) is type(time) is int or type(data) is not dict or not self._cut <= seq == self._next_seq:
            return None
        if not self.clock.before <= time <= MAX_SAFE or (members and value["surfaceOp"] != "append"):
            return None
        if self._version < 2 and kind in MAY_BE_OLD and self._legacy.normalise(value) is not None:
            return None
        sources = self._plain_sources(value, seq) if len(value) == 6 else None
        if (sources is None and len(value) == 6) or tutorial.has_trait(value, False):
            return None
        self._next_seq = judge.accepted = seq + 1
        self._events += 1
        judge.judge_among_others(value, sources)
        self.clock.before = time
        return Record(
            judge.line,
            judge.offset,
            judge.raw,  # type: ignore[arg-type] # an overlong line gives no record
            self._is_provisional,
            judge.branch,
            seq,
            time,
            value,
            None,
            False,
            False,
            sources,
        )

    def _plain_sources(self, value: Object, seq: int) -> Ranges | None:
        """sourceEventSeqs that are one run of earlier events; None where they are anything else."""
        try:
            sources = decode_sources(value["sourceEventSeqs"], self._events + 1)
        except BadRecord:
            return None
        return sources if len(sources) == 2 and sources[1] < seq else None

    def _see_time(self, event: Object, seq: int) -> int | None:
        """The event's time, Unix ms; the clock sees it where the event is the session's own."""
        time = event.get("time")
        if not is_int(time):
            return None
        if seq >= self._cut and self.clock.see(int(time)):
            self._judge.count("clock_went_back", WENT_BACK, None, seq)
        return int(time)

    def _has_odd_replace(self, event: Object) -> bool:
        """True for a surfaceOp that the version does not write so."""
        op = event.get("surfaceOp", "append")
        return op != "append" and not is_replace(op, self._version)

    def _place(self, seq: int, count: int, kind: str) -> None:
        """Put a record into its branch and, while all is well, into the accepted events."""
        judge = self._judge
        if seq < self._next_seq:
            judge.branch += 1
            self.clock.forget()
            judge.find("branch", f"the sequence number goes back to {seq}", seq=seq)
        self._next_seq = seq + count
        self._events += count
        if judge.issue is None:
            if seq == judge.accepted or self.header is None:
                judge.accepted = seq + count
            else:
                judge.seq_gap(seq, kind)

    def _sources(self, value: Object) -> Ranges | None:
        try:
            return decode_sources(value["sourceEventSeqs"], self._events)
        except BadRecord as error:
            if self.header is not None:
                self._judge.take_back("bad_record", str(error), value["type"])
            return None

    def _without_header(self, value: Object) -> Object:
        """An event of a log without header, its tutorial traits normalised."""
        has_trait = tutorial.has_trait(value, not KEYS.issuperset(value))
        self._has_trait = self._has_trait or has_trait
        if self._start.name.generation is not None and not has_trait:
            return value
        seq = value.get("seq")
        due = int(seq) if is_count(seq) and seq >= self._next_seq else self._next_seq
        time = tutorial.time_of(value.get("time"), self.clock.latest or 0)
        return self._tutorial.normalise(value, due, time)

    def _of_today(self, value: Object, seq: int) -> Object:
        """The event in today's shape; the very same object where it has that already."""
        new = self._legacy.normalise(value)
        if new is None:
            return value
        if self._version == 1:
            self._judge.find("legacy_shape_in_v1", value["type"], seq=seq)
        return new

    def _stream(self, event: Object, seq: int) -> list[Run] | None:
        data, raw = event.get("data"), self._judge.raw
        if not isinstance(data, dict) or "stream" not in data:
            return None
        try:
            return stream_runs(data["stream"], raw if isinstance(raw, bytes) else b"")
        except BadRecord as error:
            if self._judge.issue is None and self.header is not None:
                self._judge.refuse("invariant", "INV-27", str(error), seq)
            return None

    def _notice_cut(self, event: Object, seq: int) -> None:
        """From v2 on the last inherited end-seed is the session's first own event."""
        data = event.get("data")
        if self._version < 2 or not isinstance(data, dict) or data.get("inherited") is not True:
            return
        # Behind a bad record too: what is read for counting has to know whose it is.
        self._cut, self.clock = seq, Clock()
        self._judge.inherit_until(seq)
        self._has_marker = self._has_marker or self._judge.issue is None

    def _bad(self, detail: str, value: Any) -> None:
        """A line that gives no row; value is what it holds, None where it is no JSON."""
        judge = self._judge
        if judge.line == 1:
            self._start.is_unread(detail)
        self._unread += 1
        judge.find_unread(detail)
        if self.header is not None:
            judge.bad_line(value.get("type") if isinstance(value, dict) else None)

    def _parsed(self, raw: bytes | Overlong) -> Any:
        try:
            return orjson.loads(raw)  # type: ignore[arg-type] # an overlong line is refused as well
        except orjson.JSONDecodeError:
            return self._parse_oddly(raw)

    def _parse_oddly(self, raw: bytes | Overlong) -> Any:
        """A line that orjson refuses, as JavaScript would read it. Raises BadRecord."""
        if isinstance(raw, Overlong):
            raise BadRecord(f"{raw.length} bytes, {raw.why}")
        value = parse_leniently(raw)
        code = "lone_surrogate"
        try:
            raw.decode()
        except UnicodeDecodeError:
            code = "invalid_utf8"
        self._is_odd = True
        self._judge.find(code, "read by the standard JSON parser")
        return value
