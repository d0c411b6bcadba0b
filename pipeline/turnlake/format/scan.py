"""One pass over a log's lines: records out, and at the end the verdict.

Reading is generous and the verdict is strict: every line that can be understood becomes a record, whatever
the harness would do with it. What the harness accepts are the first `accepted_event_count` events of branch
0, or none in a refused log.

All lines go one way. What is not written as the harness writes it is got ready first: parsed as JavaScript would, and
brought from older (legacy) and foreign (tutorial) shapes to today's.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from turnlake.findings import Finding
from turnlake.format import tutorial
from turnlake.format.chunks import (
    PACKED_TYPES,
    ROW_TYPES,
    StreamSummary,
    chunk_type_of,
    holds_anything,
    packed_row,
    summarize,
)
from turnlake.format.clock import Clock
from turnlake.format.envelope import KEYS, is_replace
from turnlake.format.header import Header, is_header, misplaced, read_header, read_version
from turnlake.format.judge import BareLine, Judge, Place
from turnlake.format.legacy import MAY_BE_OLD, Legacy
from turnlake.format.records import ORDERS, ChunkLine, EventLine, Record
from turnlake.format.source_seqs import Ranges, decode_sources
from turnlake.format.values import (
    MAX_SAFE,
    BadRecord,
    Object,
    check_depth,
    is_count,
    is_int,
    is_text,
    parse_leniently,
    scrubbed,
)
from turnlake.format.verdict import Verdict
from turnlake.sources.lines import Overlong

_WITH_STREAM = frozenset(("assistant/message", "assistant/attempt"))
_PACKED_ORDER = ("type", "seq0", "time0", "data")
_CHUNK_ORDER = ("type", "seq", "time", "data")
# As a whole number: orjson takes it for 0, and JavaScript does not.
_MINUS_ZERO = re.compile(rb"-0(?![0-9.eE])")
# Number of a line, offset, what it holds, whether it is provisional; the branch.
_Place = tuple[int, int, Any, bool, int]
WENT_BACK = "the time is less than that of the event before"


class LogName(NamedTuple):
    """What a log's place says: its generation, None where the name is not canonical, and a stand-in id.

    `session_folder` and `project_folder` are the folders it lies in, None where they say nothing about it.
    """

    generation: int | None
    stem: str
    session_folder: str | None = None
    project_folder: str | None = None


class Scan:
    """The state of one log while its lines are read in order with `feed`; `finish` gives the verdict.

    `is_stopped` is True where no further line may be read: an unknown version, or a name that contradicts the header.
    `is_no_log` is True for a file of another name whose first line is neither a header nor an event.
    """

    def __init__(self, name: LogName) -> None:
        self.name = name
        self.clock = Clock()
        self.header: Header | None = None
        self.header_line: bytes | None = None
        self.is_stopped = False
        self.is_no_log = False
        self._judge = Judge()
        self._has_trait = False
        self._has_marker = False
        self._cut = self._events = self._unread = 0
        self._next_seq = 0
        self._last: tuple[int, int, bytes | Overlong] | None = None
        self._begin(0)

    @property
    def findings(self) -> list[Finding]:
        """What was found so far; whoever takes them may clear the list."""
        return self._judge.findings

    @property
    def seed_length(self) -> int | None:
        """The header's seedLength; None before the header, and where it states none."""
        return self.header.seed_length if self.header is not None else None

    def _begin(self, version: int) -> None:
        session = (self.header and self.header.id) or self.name.stem
        self._version = version
        self._legacy = Legacy(session)
        self._tutorial = tutorial.Tutorial(session)

    def feed(
        self, line: int, offset: int, raw: bytes | Overlong, is_provisional: bool, is_kept: bool = False
    ) -> Record | None:
        """The record in the next line; None for the header and where a finding says what is wrong.

        `is_kept` says that it was stored whole, as it is not written as the harness writes it.
        """
        self._judge.records += 1
        self._last = (line, offset, raw)
        value: Any = None
        is_odd = False
        try:
            try:
                value = orjson.loads(raw)  # type: ignore[arg-type] # an overlong line is refused as well
                # Nothing is hidden in a line that is written back as it is: no member twice, no other spelling.
                is_plain = orjson.dumps(value) == raw and not is_kept
                if not is_plain and _MINUS_ZERO.search(raw):  # type: ignore[arg-type]
                    value = parse_leniently(raw)  # type: ignore[arg-type]
            except orjson.JSONDecodeError:
                value, is_plain, is_odd = self._parse_oddly(), False, True
            except TypeError:
                raise BadRecord("nested too deeply") from None
            if line == 1 and self._take_header(value, is_odd):
                self._judge.records = 0
                return None
            kind = value.get("type") if type(value) is dict else None
            if type(kind) is not str or not kind:
                raise BadRecord("no object with a type")
            place = (line, offset, raw, is_provisional, self._judge.branch)
            if kind in PACKED_TYPES:
                return self._packed(place, value, is_plain, is_odd)
            if not is_plain:
                check_depth(value)
            if kind == "assistant/chunk" and self._version < 2:
                chunk = self._chunk(place, value, is_plain, is_odd)
                if chunk is not None:
                    return chunk
            return self._event(place, value, kind, is_plain, is_odd)
        except BadRecord as error:
            self._bad(str(error), value)
            return None

    def _at(self) -> BareLine:
        """The line read last."""
        assert self._last is not None  # there is one
        return BareLine(*self._last)

    def finish(self, corrupt: Finding | None) -> Verdict:
        """The verdict once all lines are read; corrupt is what is wrong with the container."""
        judge = self._judge
        if corrupt is not None:
            judge.findings.append(corrupt)
            judge.refusal = judge.refusal or ("corrupt", None)
        if self._last is None:
            self.is_no_log = self.name.generation is None
            self._lacks_header(None, "no complete line")
        self._check_lineage()
        judge.finish(0 if self._last is None else self._last[0])
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
        return "tutorial" if self._has_trait or self.name.generation is None else "headerless"

    # The first line

    def _take_header(self, value: Any, is_odd: bool) -> bool:
        """True where the first line holds no event: it is a header, or ends the reading. All that follows is read by
        the header's version."""
        at = self._at()
        if not is_header(value):
            self._lacks_header(at, "it is no session header")
            if self.name.generation is None and not _could_be_event(value):
                self.is_stopped = self.is_no_log = True
            return self.is_stopped
        header = self.header = read_header(scrubbed(value) if is_odd else value)
        self.header_line = at.raw if isinstance(at.raw, bytes) else None
        self._examine(at, header)
        if not self.is_stopped:
            version = read_version(header, self.name.generation)
            self._judge.begin(version, header)
            self._begin(version)
            self._cut = (header.seed_length or 0) if version < 2 else 0
        return True

    def _examine(self, at: Place, header: Header) -> None:
        judge, generation = self._judge, self.name.generation
        for note in header.notes:
            judge.find(at, "unknown_header_key", note)
        if header.refusal:
            judge.refuse(at, header.refusal, "INV-01", "; ".join(header.faults))
        if header.is_readable and generation is not None and header.version not in (generation, None):
            detail = f"the header says version {header.version}, the file name {generation}"
            judge.refuse(at, "version_mismatch", "version_mismatch", detail)
            self.is_stopped = True
        for detail in misplaced(header, self.name.session_folder, self.name.project_folder):
            judge.find(at, "path_mismatch", detail)
        self.is_stopped = self.is_stopped or not header.is_readable

    def _lacks_header(self, at: Place | None, detail: str) -> None:
        """A canonical log without header is refused; any other may be of the tutorial dialect."""
        if self.name.generation is not None:
            self._judge.refuse(at, "no_header", "no_header", detail)

    def _check_lineage(self) -> None:
        header, judge = self.header, self._judge
        if header is None or self.is_stopped:
            return
        if self._version < 2 and self._cut > judge.accepted and judge.refusal is None:
            detail = f"seedLength {self._cut} of {judge.accepted} events"
            judge.refuse(self._at(), "invariant", "INV-43", detail)
        if self._version >= 2 and header.is_seeded is not self._has_marker:
            detail = "the header and the inherited end-seed contradict each other"
            judge.refuse(self._at(), "invariant", "INV-43", detail)

    # Lines of chunks

    def _packed(self, place: _Place, value: Object, is_plain: bool, is_odd: bool) -> ChunkLine:
        """A packed row."""
        data, texts, (last, first, is_rising) = packed_row(value)
        seq, time = int(value["seq0"]), int(value["time0"])
        is_told = is_plain and tuple(value) == _PACKED_ORDER
        turn, step, index = int(data["turn"]), int(data["step"]), int(data["index"])
        call_id, name = data.get("id"), data.get("name")
        record = ChunkLine(
            *(*place, seq, time, value, is_told, is_odd, turn, step, PACKED_TYPES[value["type"]], index, len(texts)),
            *(last, first, call_id, name, None, is_rising),
        )
        if self._version >= 2:
            self._judge.open_issue(record, "bad_record", "packed row in a format without them")
        self._take_chunks(record)
        return record

    def _chunk(self, place: _Place, value: Object, is_plain: bool, is_odd: bool) -> ChunkLine | None:
        """An assistant/chunk event; None where it is no proper one."""
        data, seq, time = value.get("data"), value.get("seq"), value.get("time")
        if type(data) is not dict:
            return None
        chunk: Any = data.get("chunk")
        turn, step, chunk_type = data.get("turn"), data.get("step"), chunk_type_of(chunk)
        if chunk_type is None or not (is_count(seq) and is_int(time) and is_count(turn) and is_count(step)):
            return None
        is_regular = tuple(value) == _CHUNK_ORDER and type(seq) is int
        seq, time, index, first = int(seq), int(time), chunk.get("index"), None
        call_id = name = None
        if chunk_type in ROW_TYPES:
            if chunk_type == "tool-call-delta":
                call_id, name = chunk.get("id"), chunk.get("name")
                call_id = call_id if isinstance(call_id, str) else None
                name = name if isinstance(name, str) and call_id is not None else None
            first = time if holds_anything(chunk_type, chunk) else None
        index = int(index) if is_count(index) else None
        record = ChunkLine(
            *(*place, seq, time, value, is_plain and is_regular, is_odd, int(turn), int(step), chunk_type, index, 1),
            *(time, first, call_id, name, chunk),
        )
        self._take_chunks(record)
        if not is_regular and len(value) != 4 and self._judge.issue is None and self.header is not None:
            self._judge.judge_alone(record, value, None)
        return record

    def _take_chunks(self, record: ChunkLine) -> None:
        judge, clock, seq = self._judge, self.clock, record.seq
        self._place(record, "assistant/chunk", record.count)
        judge.judge_chunks(record)
        if seq >= self._cut:
            if record.is_rising and record.time_ms >= clock.before:
                clock.before = record.last_time_ms
                return
            times = None if record.is_rising else record.times()
            went_back = clock.see_run(record.time_ms, record.last_time_ms, times)
            if went_back:
                judge.count(record, "clock_went_back", WENT_BACK, None, seq, went_back)

    # Lines of events

    def _event(self, place: _Place, value: Object, kind: str, is_plain: bool, is_odd: bool) -> EventLine:
        judge, written = self._judge, value
        if kind == "turn/end" and judge.issue is not None:
            judge.refuse(self._at(), "corrupt", "corrupt_middle", "a turn/end follows the first bad record")
        if self.header is None:
            value = self._without_header(value)
        seq = value.get("seq")
        if not is_count(seq):
            raise BadRecord("without a sequence number")
        seq = int(seq)
        record = EventLine(*place, seq, None, value, False, is_odd)
        self._place(record, kind, 1)
        sources = record.sources = self._sources(value) if "sourceEventSeqs" in value else None
        event, normalised_from = value, None if value is written else "tutorial"
        if self._version < 2 and kind in MAY_BE_OLD:
            event = self._of_today(value, seq)
            normalised_from = normalised_from or ("legacy" if event is not value else None)
        kind = event["type"]
        time: Any = event.get("time")
        owns_message = judge.known.get(kind)
        # In v0 and v1 a member of that name means nothing; from v2 on its message cites no events.
        has_stream = kind in _WITH_STREAM and (self._version >= 2 or self.header is None)
        # Whether the members stand as those of a surface event do; None where not even so as the harness writes them.
        is_written = is_plain and event is written and type(time) is type(written["seq"]) is int
        order = ORDERS.get(tuple(event)) if is_written and -MAX_SAFE <= time <= MAX_SAFE else None
        is_surface = None if order is None else order.is_surface
        is_append = is_surface and event["surfaceOp"] == "append"
        is_regular = (
            is_surface is not None
            and is_surface is owns_message
            and type(event["data"]) is dict
            and is_append is is_surface
            and (len(event) < 6 or (not has_stream and sources is not None and len(sources) == 2 and sources[1] < seq))
        )
        record.event, record.normalised_from, record.is_known = event, normalised_from, owns_message is not None
        # Columns give the line back: else it is kept whole.
        record.is_plain = is_regular or (
            is_surface is not None
            and (is_append is is_surface or _is_plain_replace(event["surfaceOp"], self._version))
            and (sources is not None or "sourceEventSeqs" not in event)
        )
        if has_stream:
            record.stream = self._stream(event, seq)
        judge.judge(record, is_regular)
        if kind == "session/end-seed":
            self._notice_cut(event, seq)
        if order is not None and time >= self.clock.before and seq >= self._cut:
            record.time_ms = self.clock.before = time
        else:
            record.time_ms = self._see_time(record, time)
        if not is_regular or kind in tutorial.MAY_HAVE_TRAIT:
            self._notice_trait(record, written)
        return record

    def _notice_trait(self, record: EventLine, written: Object) -> None:
        """An event with a trait of the tutorials in a log with a header is normalised as they are."""
        has_odd_members = not KEYS.issuperset(written) or record.time_ms is None
        if self.header is not None and tutorial.has_trait(record.event, has_odd_members):
            self._has_trait = True
            record.event = self._tutorial.normalise(record.event, record.seq, record.time_ms)
            record.normalised_from = "tutorial"
            record.is_plain = False

    def _place(self, record: Record, kind: str, count: int) -> None:
        """Put a record into its branch and, while all is well, into the accepted events."""
        judge, seq = self._judge, record.seq
        if seq < self._next_seq:
            judge.branch += 1
            record.branch = judge.branch
            self.clock.forget()
            judge.find(record, "branch", f"the sequence number goes back to {seq}", seq=seq)
        self._next_seq = seq + count
        self._events += count
        if judge.issue is None:
            if seq == judge.accepted or self.header is None:
                judge.accepted = seq + count
            else:
                judge.seq_gap(record, seq, kind)

    def _see_time(self, record: EventLine, time: Any) -> int | None:
        """The event's time, Unix ms; the clock sees it where the event is the session's own."""
        if not is_int(time):
            return None
        time_ms = int(time)
        if record.seq >= self._cut:
            if time_ms >= self.clock.before:
                self.clock.before = time_ms
            elif self.clock.see(time_ms):
                self._judge.count(record, "clock_went_back", WENT_BACK, None, record.seq)
        return time_ms

    def _sources(self, value: Object) -> Ranges | None:
        try:
            return decode_sources(value["sourceEventSeqs"], self._events)
        except BadRecord as error:
            if self.header is not None:
                self._judge.reject_last(self._at(), "bad_record", str(error), value["type"])
            return None

    def _without_header(self, value: Object) -> Object:
        """An event of a log without header, its tutorial traits normalised."""
        has_trait = tutorial.has_trait(value, not KEYS.issuperset(value))
        self._has_trait = self._has_trait or has_trait
        if self.name.generation is not None and not has_trait:
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
            self._judge.find(self._at(), "legacy_shape_in_v1", value["type"], seq=seq)
        return new

    def _stream(self, event: Object, seq: int) -> StreamSummary | None:
        data = event.get("data")
        if not isinstance(data, dict) or "stream" not in data:
            return None
        try:
            return summarize(data["stream"])
        except BadRecord as error:
            if self._judge.issue is None and self.header is not None:
                self._note_bad_stream(str(error), seq)
            return None

    def _note_bad_stream(self, detail: str, seq: int) -> None:
        """From v3 on the harness does not look inside a stream when it reads a log (spec 13a)."""
        if self._version >= 3:
            self._judge.find(self._at(), "INV-27", detail, "warning", seq)
        else:
            self._judge.refuse(self._at(), "invariant", "INV-27", detail, seq)

    def _notice_cut(self, event: Object, seq: int) -> None:
        """From v2 on the last inherited end-seed is the session's first own event."""
        data = event.get("data")
        if self._version < 2 or not isinstance(data, dict) or data.get("inherited") is not True:
            return
        # Behind a bad record too: what is read for counting has to know whose it is.
        self._cut, self.clock = seq, Clock()
        self._judge.inherit_until(seq)
        self._has_marker = self._has_marker or self._judge.issue is None

    # Lines that give no record

    def _bad(self, detail: str, value: Any) -> None:
        """A line that gives no row; value is what it holds, None where it is no JSON."""
        judge, at = self._judge, self._at()
        if at.line == 1:
            self._lacks_header(at, detail)
            self.is_stopped = self.is_no_log = self.name.generation is None
        self._unread += 1
        judge.find_unread(at, detail)
        if self.header is not None:
            judge.bad_line(at, value.get("type") if isinstance(value, dict) else None)

    def _parse_oddly(self) -> Any:
        """A line that orjson refuses, as JavaScript would read it. Raises BadRecord."""
        at = self._at()
        raw = at.raw
        if isinstance(raw, Overlong):
            raise BadRecord(f"{raw.length} bytes, {raw.why}")
        value = parse_leniently(raw)
        code = "lone_surrogate"
        try:
            raw.decode()
        except UnicodeDecodeError:
            code = "invalid_utf8"
        self._judge.find(at, code, "read by the standard JSON parser")
        return value


def _is_plain_replace(op: Any, version: int) -> bool:
    """Whether a replace operation is written as the harness writes it."""
    return is_replace(op, version) and next(iter(op)) == "op" and all(type(end) is int for end in [*op.values()][1:])


def _could_be_event(value: Any) -> bool:
    """True for an object that could be an event or a packed row, of the tutorials too."""
    kind = value.get("type") if isinstance(value, dict) else None
    return is_text(kind) and ("/" in kind or kind in PACKED_TYPES or "seq" in value)
