"""The harness's verdict on a log, record by record: accepted, a tail, refused (spec 2.3, 5, 11)."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from turnlake.findings import Finding, Severity, excerpt, shown
from turnlake.format import envelope
from turnlake.format.header import Header
from turnlake.format.legacy import UNSUPPORTED
from turnlake.format.records import ChunkLine, EventLine
from turnlake.format.rules import Breach, LogState, chunks_rule, judge_end, judge_event
from turnlake.format.source_seqs import Ranges
from turnlake.format.types import known_types
from turnlake.format.values import Object
from turnlake.sources.lines import Overlong

# Format version -> the only event types whose payload is looked at by itself (envelope.payload_faults).
_CHECKED_PAYLOADS = {
    0: frozenset(("turn/end", "request/header")),
    1: frozenset(("turn/end", "request/header")),
    2: frozenset(("assistant/message", "assistant/attempt", "request/header")),
    3: frozenset(("assistant/message", "assistant/attempt", "request/header")),
    4: frozenset(
        "assistant/attempt request/header user/message assistant/message tool/result system/message "
        "developer/message".split()
    ),
}
# What a log without header can't break (spec 13): rules about members and events that its dialect lacks.
_NOT_IN_TUTORIALS = frozenset(f"INV-{number:02}" for number in (1, 2, 3, 4, 5, 7, 17, 20, *range(22, 29), 30))


class Place(Protocol):
    """A line of a log: its number from 1, its offset in the decompressed log, what it holds."""

    @property
    def line(self) -> int: ...  # noqa: D102
    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def raw(self) -> bytes | Overlong: ...  # noqa: D102


class BareLine(NamedTuple):
    """A line by itself, before or without a record made of it."""

    line: int
    offset: int
    raw: Any  # bytes or Overlong; of a line that gives a record bytes


class Judge:
    """Follows the records of one log in order. Every method about a line takes that line first.

    `version` is None for a log without header: then nothing refuses it and every breach is a warning.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.refusal: tuple[str, int | None] | None = None
        self.issue: tuple[str, int] | None = None
        self.accepted = 0
        self.records = self.records_before_issue = 0
        self.has_unknown_required_type = False
        self.branch = 0
        self.begin(None)

    def begin(self, version: int | None, header: Header | None = None) -> None:
        """The header is read: judge what follows by that version."""
        self.version = version
        self._counted = _CountedFindings()
        # Whether each known type owns a message.
        self.known = known_types(version or 0)
        self.checked = _CHECKED_PAYLOADS[version or 0] if version is not None else frozenset()
        cut = (header.seed_length or 0) if header and (version or 0) < 2 else 0
        self.state = LogState(version or 0, header.id if header else None, cut)

    @property
    def cut(self) -> int:
        """The seq of the session's first own event: those before it are copied from the parent."""
        return self.state.cut

    # Findings

    def find(
        self, at: Place | None, code: str, detail: str, severity: Severity | None = None, seq: int | None = None
    ) -> None:
        """A finding at a line; at None it is about the whole log."""
        branch = None if seq is None else self.branch
        if at is None:
            self.findings.append(Finding(code, shown(detail), None, None, branch, seq, None, severity))
            return
        start = at.raw.start if isinstance(at.raw, Overlong) else at.raw
        self.findings.append(Finding(code, shown(detail), at.line, at.offset, branch, seq, excerpt(start), severity))

    def find_unread(self, at: Place, detail: str) -> None:
        """The line gives no row. Like lines in a row make one finding: a log may be nothing else."""
        self.find(at, "unread_line", detail)
        self.merge_unread()

    def merge_unread(self) -> None:
        """Let the finding before stand for the line of the last one too, where both say the same."""
        *_, last = self.findings
        before = self.findings[-2] if len(self.findings) > 1 else None
        count = 1 if before is None else (before.line_count or 0)
        follows = before is not None and before.line is not None and before.line + count == last.line
        if before is not None and follows and (before.code, before.detail) == (last.code, last.detail):
            self.findings[-2:] = [before._replace(line_count=count + 1)]
        else:
            self.findings[-1] = last._replace(line_count=1)

    def count(self, at: Place, code: str, detail: str, severity: Severity | None, seq: int, times: int = 1) -> None:
        """What a log may hold any number of times: reported once, with how often among the session's own events."""
        if seq >= self.cut:
            # No excerpt: what stored lines are read again as may be spelt differently.
            self._counted.add(Finding(code, detail, at.line, at.offset, self.branch, seq, None, severity), times)

    # Refusals and tails

    def refuse(self, at: Place | None, reason: str, code: str, detail: str, seq: int | None = None) -> None:
        """The harness refuses the log, for the first reason there is."""
        self.find(at, code, detail, "error", seq)
        if self.refusal is None:
            self.refusal = (reason, None if at is None else at.line)

    def bad_line(self, at: Place, kind: object) -> None:
        """A line that gives no record; kind is the type it claims to have."""
        if self.issue is None:
            self.issue, self.records_before_issue = ("bad_record", at.line), self.records - 1
            self._refuse_if_turn_end(at, kind)
        elif kind == "turn/end":
            self.refuse(at, "corrupt", "corrupt_middle", "a turn/end follows the first bad record")

    def open_issue(self, at: Place, reason: str, detail: str, code: str | None = None) -> None:
        """The record is bad: unless a finished turn follows, the log is cut off before it."""
        if self.issue is None:
            self.issue = (reason, at.line)
            self.records_before_issue = self.records - 1
            self.find(at, code or reason, detail)

    def seq_gap(self, at: Place, seq: int, kind: str) -> None:
        """A record whose sequence number is not the one due."""
        self.open_issue(at, "seq_gap", f"sequence number {seq} where {self.accepted} was due")
        self._refuse_if_turn_end(at, kind)

    def reject_last(self, at: Place, reason: str, detail: str, kind: str, code: str = "bad_record") -> None:
        """The event accepted last is bad after all."""
        if self.issue is None:
            self.accepted -= 1
            self.open_issue(at, reason, detail, code)
            self._refuse_if_turn_end(at, kind)

    def _refuse_if_turn_end(self, at: Place, kind: object) -> None:
        if kind == "turn/end":
            self.refuse(at, "corrupt", "corrupt_middle", "the first bad record is a turn/end")

    # Records

    def judge(self, record: EventLine, is_regular: bool) -> None:
        """Everything that an event may break: all of it while events are accepted, little behind that.

        `is_regular` says that its envelope needs no closer look: nearly every event's.
        """
        if self.issue is not None:
            self._judge_tail(record)
            return
        event = record.event
        kind: str = event["type"]
        if self.version is not None:
            if kind in UNSUPPORTED and self.version < 2:
                self.refuse(record, "unsupported_legacy", "unsupported_legacy", kind, record.seq)
            elif not record.is_known:
                self._unknown_type(record)
            if not is_regular:
                self.judge_alone(record, event, record.sources)
            elif kind in self.checked:
                self._judge_faults(record, event, envelope.payload_faults(event, self.version))
        if self.issue is None:
            judge_event(self.state, record)
            if self.state.breaches:
                self._note_breaches(record, record.seq, kind)

    def judge_chunks(self, record: ChunkLine) -> None:
        """What chunks of v0 or v1 break, while events are accepted."""
        if self.issue is None:
            chunks_rule(self.state, record)
            if self.state.breaches:
                self._note_breaches(record, record.seq, "assistant/chunk")

    def judge_alone(self, at: Place, event: Object, sources: Ranges | None) -> None:
        """What an event breaks whatever stands around it."""
        version, kind = self.version or 0, event["type"]
        faults = [
            *envelope.envelope_faults(event, version),
            *envelope.surface_faults(event, sources, version, kind in self.known),
            *envelope.payload_faults(event, version),
        ]
        self._judge_faults(at, event, faults)

    def _judge_faults(self, at: Place, event: Object, faults: list[envelope.Fault]) -> None:
        """Faults that refuse the log do so all; of those that may end it as a tail the first does."""
        for fault in faults:
            if not fault.is_tail:
                self._refuse_for(at, fault, event)
        for fault in faults:
            if fault.is_tail:
                kind = event["type"]
                self.reject_last(at, fault.reason, f"{kind[:100]} {fault.detail}", kind, fault.id)
                return

    def _judge_tail(self, record: EventLine) -> None:
        """What an event behind the first bad record still refuses."""
        if self.version is not None:
            for fault in envelope.faults_anywhere(record.event, self.version):
                self._refuse_for(record, fault, record.event)

    def _refuse_for(self, at: Place, fault: envelope.Fault, event: Object) -> None:
        self.refuse(at, fault.reason, fault.id, f"{event['type'][:100]} {fault.detail}", event.get("seq"))

    def _unknown_type(self, record: EventLine) -> None:
        name = repr(record.event["type"][:100])
        if record.event.get("ignorable") is True:
            self.find(record, "unknown_type", f"unknown type {name} is ignorable", seq=record.seq)
        else:
            self.has_unknown_required_type = True
            self.refuse(record, "unknown_type", "INV-04", f"unknown type {name} is not ignorable", record.seq)

    def _note_breaches(self, at: Place, seq: int, kind: str) -> None:
        for breach in self.state.breaches:
            self._note_breach(at, breach, seq, kind)
        self.state.breaches.clear()

    def _note_breach(self, at: Place, breach: Breach, seq: int, kind: str) -> None:
        if self.version is None and breach.id in _NOT_IN_TUTORIALS:
            return
        if breach.is_counted:
            self.count(at, breach.id, breach.detail, breach.severity, seq)
        elif breach.severity != "error" or self.version is None:
            severity: Severity = "advisory" if breach.severity == "advisory" else "warning"
            self.find(at, breach.id, breach.detail, severity, seq)
        elif breach.id == "INV-23":
            self.reject_last(at, breach.reason, breach.detail, kind, breach.id)
        else:
            self.refuse(at, breach.reason, breach.id, breach.detail, seq)

    def inherit_until(self, seq: int) -> None:
        """The events before seq turn out to be the parent's."""
        self.state.cut = seq
        self._counted = _CountedFindings()

    def finish(self, last_line: int) -> None:
        """The log is read to its end: what was counted, and what it leaves open."""
        self.findings += self._counted.findings()
        place = last_line if self.issue is None else self.issue[1] - 1
        judge_end(self.state)
        for breach in self.state.breaches:
            if breach.id == "INV-46" and self.issue is not None and self.refusal is not None:
                # Nothing was accepted, and what was read behind the first bad record may have closed the turn.
                continue
            if self.version is not None or breach.id not in _NOT_IN_TUTORIALS:
                self.findings.append(
                    Finding(breach.id, breach.detail, place, None, None, self.accepted - 1, None, breach.severity)
                )
        self.state.breaches.clear()


class _CountedFindings:
    """Findings that a log may hold any number of times: one for each code, where it came first, with its count."""

    def __init__(self) -> None:
        self._first: dict[str, Finding] = {}
        self._counts: dict[str, int] = {}

    def add(self, finding: Finding, count: int) -> None:
        self._first.setdefault(finding.code, finding)
        self._counts[finding.code] = self._counts.get(finding.code, 0) + count

    def findings(self) -> list[Finding]:
        return [
            one if (count := self._counts[code]) == 1 else one._replace(detail=f"{one.detail}; {count:,} times in all")
            for code, one in self._first.items()
        ]
