"""One pass over a log's lines: records out, and at the end the verdict of the harness (spec 2.3, 5, 11).

Reading is generous and the verdict is strict: every line that can be understood becomes a record, whatever
the harness would do with it. What the harness accepts are the first `accepted_event_count` events of branch
0, or none in a refused log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from turnlake.events import envelope, tutorial
from turnlake.events.clock import Clock
from turnlake.events.header import Header, is_header, read_header
from turnlake.events.invariants import Invariants
from turnlake.events.legacy import MAY_BE_OLD, UNSUPPORTED, Legacy
from turnlake.events.runs import PACKED_TYPES, Run, packed_run, single_run, stream_runs
from turnlake.events.sources import Ranges, decode_sources, expand
from turnlake.events.values import BadRecord, Object, is_count, is_int, is_text, parse_leniently
from turnlake.events.vocabulary import KNOWN_TYPES
from turnlake.findings import Finding, Severity, excerpt
from turnlake.logs.lines import Overlong

_MAY_SHOW_TRAIT = frozenset(("user/message", "assistant/message", "tool/result", "tool/call", "turn/end"))
_WITH_STREAM = frozenset(("assistant/message", "assistant/attempt"))
_CHUNK_KEYS = {"turn", "step", "chunk"}


@dataclass(slots=True)
class Record:
    """One readable line: an event, or a run of chunks (`run`), with the branch and seq of its first event.

    `event` is the parsed line, its older or foreign shapes normalised; `sources` its decoded
    sourceEventSeqs; `stream` the runs embedded in it, None where it has none or they are malformed.
    `keep_line` is set where event, run and stream do not tell all that the line says, `is_odd` where only the
    standard parser could read the line, and its strings may hold lone surrogates.
    """

    line: int
    offset: int
    raw: bytes
    is_provisional: bool
    branch: int
    seq: int
    time_ms: int | None
    event: Object
    run: Run | None = None
    sources: Ranges | None = None
    stream: list[Run] | None = None
    is_known: bool = True
    keep_line: bool = False
    is_odd: bool = False

    def logical(self) -> Object:
        """The event with its sourceEventSeqs expanded; for a record without run."""
        return self.event if self.sources is None else self.event | {"sourceEventSeqs": expand(self.sources)}


class LogName(NamedTuple):
    """What a log's place says: its generation, None where the name is not canonical, and a stand-in id."""

    generation: int | None
    stem: str


@dataclass(frozen=True)
class Verdict:
    """What the harness would do with the log (product contract, reading policy), and what was counted."""

    verdict: str
    reason: str | None
    line: int | None
    dialect: str | None
    accepted_event_count: int
    inherited_event_count: int
    event_count: int
    dropped_record_count: int
    unread_line_count: int
    has_unknown_required_type: bool


@dataclass
class _At:
    """The line being read."""

    line: int = 0
    offset: int = 0
    raw: Any = b""
    is_provisional: bool = False
    is_odd: bool = False


@dataclass
class Scan:
    """The state of one log while its lines are read in order with `feed`; `finish` gives the verdict."""

    name: LogName
    header: Header | None = None
    header_line: bytes | None = None
    findings: list[Finding] = field(default_factory=list)
    # True once no further line may be read: an unknown version, or a name that contradicts the header.
    is_stopped: bool = False
    # True for a file of another name whose first line is neither a header nor an event.
    is_no_log: bool = False

    def __post_init__(self) -> None:
        self._at = _At()
        self._refusal: tuple[str, int | None] | None = None
        self._issue: tuple[str, int] | None = None
        self._has_trait = False
        self._has_unknown = False
        self._events = self._unread = self._records = self._records_before_issue = self._accepted = 0
        self._branch = 0
        self._last_seq = -1
        self._cut = 0
        self._has_marker = False
        self.clock = Clock()
        self._begin(0)

    def _begin(self, version: int) -> None:
        session = (self.header and self.header.id) or self.name.stem
        self.version = version
        self._known = KNOWN_TYPES[version]
        self._invariants = Invariants(version)
        self._legacy = Legacy(session)
        self._tutorial = tutorial.Tutorial(session)

    def feed(self, line: int, offset: int, raw: bytes | Overlong, is_provisional: bool) -> Record | None:
        """The record in the next line; None for the header and where a finding says what is wrong."""
        at = self._at
        at.line, at.offset, at.raw, at.is_provisional, at.is_odd = line, offset, raw, is_provisional, False
        self._records += 1
        try:
            try:
                value = orjson.loads(raw)  # type: ignore[arg-type] # an overlong line is refused as well
            except orjson.JSONDecodeError:
                value = self._parse_oddly(raw)
            if line == 1 and self._take_header(value):
                self._records = 0
                return None
            return self._record(value)
        except BadRecord as error:
            self._bad(str(error))
            return None

    def _record(self, value: Any) -> Record:
        kind = value.get("type") if type(value) is dict else None
        if not is_text(kind):
            raise BadRecord("no object with a type")
        if self._issue is not None and kind == "turn/end":
            self._refuse("corrupt", "corrupt_middle", "a turn/end follows the first bad record")
        if kind in PACKED_TYPES:
            return self._packed(value)
        if kind == "assistant/chunk" and self.version < 2 and (record := self._chunk(value)) is not None:
            return record
        return self._event(value)

    def finish(self, corrupt: Finding | None) -> Verdict:
        """The verdict once all lines are read; corrupt is what is wrong with the container."""
        if corrupt is not None:
            self.findings.append(corrupt)
            self._set_refusal("corrupt", None)
        if self.header_line is None and self.name.generation is not None and self._refusal is None:
            self._set_refusal("no_header", None)
            self._find("no_header", "no complete line")
        self._check_lineage()
        verdict, (reason, line) = "clean", (None, None)
        if self._issue is not None:
            verdict, (reason, line) = "removable_tail", self._issue
        if self._refusal is not None:
            verdict, (reason, line) = "refused", self._refusal
        return Verdict(
            verdict=verdict,
            reason=reason,
            line=line,
            dialect=self._dialect(),
            accepted_event_count=0 if self._refusal else self._accepted,
            inherited_event_count=self._cut,
            event_count=self._events,
            dropped_record_count=self._records - self._records_before_issue if self._issue else 0,
            unread_line_count=self._unread,
            has_unknown_required_type=self._has_unknown,
        )

    def _dialect(self) -> str | None:
        if self.is_stopped or (self.header is None and not self._events):
            return None
        if self.header is not None:
            return "mixed" if self._has_trait else "real"
        return "tutorial" if self._has_trait or self.name.generation is None else "headerless"

    # The header

    def _take_header(self, value: Any) -> bool:
        """True where the first line is a header; all that follows is read by its version."""
        if not is_header(value):
            self._first_is_no_header("it is no session header")
            if self.name.generation is None and not _is_event(value):
                self.is_stopped = self.is_no_log = True
            return self.is_stopped
        self.header, self.header_line = read_header(value), self._at.raw
        header, generation = self.header, self.name.generation
        for note in header.notes:
            self._find("unknown_header_key", note)
        if header.refusal:
            self._refuse(header.refusal, "INV-01", "; ".join(header.faults))
        if header.is_readable and generation is not None and header.version not in (generation, None):
            detail = f"the header says version {header.version}, the file name {generation}"
            self._refuse("version_mismatch", "version_mismatch", detail)
            self.is_stopped = True
        self.is_stopped = self.is_stopped or not header.is_readable
        if not self.is_stopped:
            self._begin(header.version or 0)
            self._cut = header.seed_length or 0
        return True

    def _first_is_no_header(self, detail: str) -> None:
        """A canonical log without header is refused; any other may be of the tutorial dialect."""
        if self.name.generation is not None:
            self._refuse("no_header", "no_header", detail)

    def _check_lineage(self) -> None:
        header = self.header
        if header is None or self.is_stopped:
            return
        if self.version < 2 and self._cut > self._accepted and self._refusal is None:
            self._refuse("invariant", "INV-43", f"seedLength {self._cut} of {self._accepted} events")
        if self.version >= 2 and header.is_seeded is not self._has_marker:
            self._refuse("invariant", "INV-43", "the header and the inherited end-seed contradict each other")

    # Records

    def _packed(self, value: Object) -> Record:
        run = packed_run(value, self._at.raw)
        if self.version >= 2:
            self._open_issue("bad_record", "packed row in a format without them")
        return self._run_record(value, int(value["seq0"]), run, keep_line=False)

    def _chunk(self, value: Object) -> Record | None:
        """An assistant/chunk event, the most frequent line of all; None where it is no proper one."""
        data, seq = value.get("data"), value.get("seq")
        if type(data) is not dict or not is_count(seq):
            return None
        turn, step = data.get("turn"), data.get("step")
        run = single_run(data.get("chunk"), value.get("time"))
        if run is None or not is_count(turn) or not is_count(step):
            return None
        run.turn, run.step = turn, step
        is_odd = len(value) != 4 or data.keys() != _CHUNK_KEYS
        if is_odd and self._issue is None:
            self._judge_envelope(value, None, is_known=True)
        return self._run_record(value, int(seq), run, keep_line=is_odd)

    def _run_record(self, value: Object, seq: int, run: Run, *, keep_line: bool) -> Record:
        self._place(seq, run.count, is_turn_end=False)
        if self._issue is None:
            breach = self._invariants.note_chunks(seq, run)
            if breach is not None:
                self._find(breach.id, breach.detail, breach.severity, seq)
        if seq >= self._cut and (went_back := self.clock.see_run(run)):
            self._find("clock_went_back", f"{went_back} times", seq=seq)
        at = self._at
        record = Record(at.line, at.offset, at.raw, at.is_provisional, self._branch, seq, run.time_ms, value, run)
        record.keep_line, record.is_odd = keep_line or at.is_odd, at.is_odd
        return record

    def _event(self, value: Object) -> Record:
        if self.header is None:
            value = self._without_header(value)
        if not is_count(value.get("seq")):
            raise BadRecord("without a sequence number")
        seq, at = int(value["seq"]), self._at
        self._place(seq, 1, is_turn_end=value["type"] == "turn/end")
        sources = self._sources(value, seq)
        event = self._normalised(value, seq)
        stream = self._stream(event, seq)
        is_known = event["type"] in self._known
        if self._issue is None:
            self._judge(event, sources, is_known)
        time = int(event["time"]) if is_int(event.get("time")) else None
        self._notice_cut(event, seq)
        if seq >= self._cut and time is not None and self.clock.see(time):
            self._find("clock_went_back", "once", seq=seq)
        keep_line = event is not value or not envelope.KEYS.issuperset(value) or time is None
        record = Record(at.line, at.offset, at.raw, at.is_provisional, self._branch, seq, time, event)
        record.sources, record.stream = sources, stream
        record.is_known, record.keep_line, record.is_odd = is_known, keep_line, at.is_odd
        return record

    def _place(self, seq: int, count: int, *, is_turn_end: bool) -> None:
        """Put a record into its branch and, while all is well, into the accepted events."""
        if seq <= self._last_seq:
            self._branch += 1
            self.clock.forget()
            self._find("branch", f"the sequence number goes back to {seq}", seq=seq)
        self._last_seq = seq + count - 1
        self._events += count
        if self._issue is None and seq != self._accepted:
            self._open_issue("seq_gap", f"sequence number {seq} where {self._accepted} was due")
            if is_turn_end:
                self._refuse("corrupt", "corrupt_middle", "the first bad record is a turn/end")
        if self._issue is None:
            self._accepted += count

    def _sources(self, value: Object, seq: int) -> Ranges | None:
        if "sourceEventSeqs" not in value:
            return None
        try:
            return decode_sources(value["sourceEventSeqs"], seq)
        except BadRecord as error:
            self._take_back("bad_record", str(error), value["type"])
            return None

    def _without_header(self, value: Object) -> Object:
        """An event of a log without header, its tutorial traits normalised."""
        has_trait = tutorial.has_trait(value)
        self._has_trait = self._has_trait or has_trait
        if self.name.generation is not None and not has_trait:
            return value
        seq = value.get("seq")
        due = int(seq) if is_count(seq) and seq > self._last_seq else self._last_seq + 1
        time = tutorial.time_of(value.get("time"), self.clock.latest or 0)
        return self._tutorial.normalise(value, due, time)

    def _normalised(self, value: Object, seq: int) -> Object:
        """The event in today's shape; the very same object where it has that already."""
        if self.version < 2 and value["type"] in MAY_BE_OLD and (old := self._legacy.normalise(value)) is not None:
            if self.version == 1:
                self._find("legacy_shape_in_v1", value["type"], seq=seq)
            return old
        if self.header is not None and value["type"] in _MAY_SHOW_TRAIT and tutorial.has_trait(value):
            self._has_trait = True
        return value

    def _stream(self, event: Object, seq: int) -> list[Run] | None:
        data = event["data"] if event["type"] in _WITH_STREAM else None
        if not isinstance(data, dict) or "stream" not in data:
            return None
        try:
            return stream_runs(data["stream"], self._at.raw)
        except BadRecord as error:
            if self._issue is None:
                self._refuse("invariant", "INV-27", str(error), seq)
            return None

    def _notice_cut(self, event: Object, seq: int) -> None:
        """From v2 on the last inherited end-seed is the session's first own event."""
        if self.version >= 2 and event["type"] == "session/end-seed" and self._issue is None:
            data = event["data"]
            if isinstance(data, dict) and data.get("inherited") is True:
                self._cut, self._has_marker = seq, True
                self.clock = Clock()

    # The verdict

    def _judge(self, event: Object, sources: Ranges | None, is_known: bool) -> None:
        """Everything an accepted event may break."""
        kind, seq = event["type"], event["seq"]
        if self.header is None:
            self._note_breaches(event, sources)
            return
        if kind in UNSUPPORTED:
            self._refuse("unsupported_legacy", "unsupported_legacy", kind, seq)
        elif not is_known and event.get("ignorable") is not True:
            self._has_unknown = True
            self._refuse("unknown_type", "INV-04", f"unknown type {kind[:100]!r} is not ignorable", seq)
        elif not is_known:
            self._find("unknown_type", f"unknown type {kind[:100]!r} is ignorable", seq=seq)
        if self._judge_envelope(event, sources, is_known):
            self._note_breaches(event, sources)

    def _judge_envelope(self, event: Object, sources: Ranges | None, is_known: bool) -> bool:
        """False where the event by itself ends what is accepted."""
        faults: Iterable[envelope.Fault] = (
            *envelope.envelope_faults(event, self.version),
            *envelope.surface_faults(event, sources, self.version, is_known),
            *envelope.payload_faults(event, self.version),
        )
        for fault in faults:
            if fault.is_tail:
                self._take_back(fault.reason, f"{event['type'][:100]} {fault.detail}", event["type"], fault.id)
                return False
            self._refuse(fault.reason, fault.id, f"{event['type'][:100]} {fault.detail}", event.get("seq"))
        return True

    def _note_breaches(self, event: Object, sources: Ranges | None) -> None:
        for breach in self._invariants.check(event, sources):
            is_refused = breach.severity == "error" and self.header is not None
            if is_refused and breach.id == "INV-23":
                self._take_back(breach.reason, breach.detail, event["type"], breach.id)
            elif is_refused:
                self._refuse(breach.reason, breach.id, breach.detail, event["seq"])
            else:
                severity: Severity = "advisory" if breach.severity == "advisory" else "warning"
                self._find(breach.id, breach.detail, severity, event["seq"])

    def _take_back(self, reason: str, detail: str, kind: str, code: str = "bad_record") -> None:
        """The record placed last is bad after all: nothing from it on is accepted."""
        if self._issue is not None:
            return
        self._accepted -= 1
        self._open_issue(reason, detail, code)
        if kind == "turn/end":
            self._refuse("corrupt", "corrupt_middle", "the first bad record is a turn/end")

    def _open_issue(self, reason: str, detail: str, code: str | None = None) -> None:
        """The line being read is the first bad one: nothing from it on is accepted."""
        if self._issue is None:
            self._issue = (reason, self._at.line)
            self._records_before_issue = self._records - 1
            self._find(code or reason, detail)

    def _bad(self, detail: str) -> None:
        """A line that gives no row."""
        if self._at.line == 1:
            self._first_is_no_header(detail)
            self.is_stopped = self.is_no_log = self.name.generation is None
        self._unread += 1
        self._find("unread_line", detail)
        if self.header is not None and self._issue is None:
            self._issue = ("bad_record", self._at.line)
            self._records_before_issue = self._records - 1

    def _refuse(self, reason: str, code: str, detail: str, seq: int | None = None) -> None:
        self._find(code, detail, "error", seq)
        self._set_refusal(reason, self._at.line)

    def _set_refusal(self, reason: str, line: int | None) -> None:
        if self._refusal is None:
            self._refusal = (reason, line)

    def _find(self, code: str, detail: str, severity: Severity | None = None, seq: int | None = None) -> None:
        at = self._at
        start = at.raw.start if isinstance(at.raw, Overlong) else at.raw
        branch = None if seq is None else self._branch
        self.findings.append(Finding(code, detail, at.line, at.offset, branch, seq, excerpt(start), severity))

    def _parse_oddly(self, raw: bytes | Overlong) -> Any:
        """A line that orjson refuses, as JavaScript would read it. Raises BadRecord."""
        if isinstance(raw, Overlong):
            raise BadRecord(f"{raw.length} bytes, longer than the longest line allowed")
        value = parse_leniently(raw)
        code = "lone_surrogate" if b"\\ud" in raw.lower() else "odd_json"
        try:
            raw.decode()
        except UnicodeDecodeError:
            code = "invalid_utf8"
        self._at.is_odd = True
        self._find(code, "read by the standard JSON parser")
        return value


def _is_event(value: Any) -> bool:
    """True for an object that could be an event or a packed row, of the tutorials too."""
    kind = value.get("type") if isinstance(value, dict) else None
    return is_text(kind) and ("/" in kind or kind in PACKED_TYPES or "seq" in value)
