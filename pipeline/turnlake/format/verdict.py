"""The harness's verdict on a log, record by record: accepted, a tail, refused (spec 2.3, 5, 11)."""

from __future__ import annotations

from dataclasses import dataclass

from turnlake.findings import Finding, Severity, excerpt, shown
from turnlake.format import envelope
from turnlake.format.breach import Breach
from turnlake.format.header import Header
from turnlake.format.invariants import Invariants
from turnlake.format.legacy import UNSUPPORTED
from turnlake.format.sources import Ranges
from turnlake.format.sums import Sums
from turnlake.format.values import Object, is_int
from turnlake.format.vocabulary import KNOWN_TYPES, SURFACE_TYPES
from turnlake.sources.lines import Overlong

# Format version -> the only event types whose payload is looked at by itself (envelope.payload_faults).
_CHECKED_PAYLOADS = {
    0: frozenset(("turn/end", "request/header")),
    1: frozenset(("turn/end", "request/header")),
    2: frozenset(("assistant/message", "assistant/attempt", "request/header")),
    3: frozenset(("assistant/message", "assistant/attempt", "request/header")),
    4: frozenset(("assistant/attempt", "request/header", *SURFACE_TYPES[4])),
}
# Types that mean more to a log than what stands in `Invariants`.
_JUDGED_BY_ITSELF = frozenset((*UNSUPPORTED, "assistant/chunk", "assistant/attempt", "session/end-seed"))
# What a log without header can't break (spec 13): rules about members and events that its dialect lacks.
_NOT_IN_TUTORIALS = frozenset(f"INV-{number:02}" for number in (1, 2, 3, 4, 5, 7, 17, 20, *range(22, 29), 30))


@dataclass(frozen=True)
class Verdict:
    """What the harness would do with the log (product contract, reading policy), and what was counted.

    `verdict` is clean, removable_tail or refused; `reason` and `line` say why and where it is not clean.
    """

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


class Judge:
    """Follows the records of one log in order.

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
        self.line = self.offset = 0
        self.raw: bytes | Overlong = b""
        self.begin(None)

    def begin(self, version: int | None, header: Header | None = None) -> None:
        """The header is read: judge what follows by that version."""
        self.version = version
        self.sums = Sums()
        # The events before are copied from the parent.
        self.cut = (header.seed_length or 0) if header and (version or 0) < 2 else 0
        self._known = KNOWN_TYPES[version or 0]
        self._surface = SURFACE_TYPES[version or 0]
        self._checked = _CHECKED_PAYLOADS[version or 0]
        plain = self._known - self._checked - _JUDGED_BY_ITSELF if version is not None else ()
        # The types of which only the envelope is looked at, and whether each is a surface type.
        self.plain_types = {kind: kind in self._surface for kind in plain}
        self.invariants = Invariants(version or 0, header.id if header else None, self.cut)

    def find(self, code: str, detail: str, severity: Severity | None = None, seq: int | None = None) -> None:
        """A finding at the line being read."""
        start = self.raw.start if isinstance(self.raw, Overlong) else self.raw
        branch = None if seq is None else self.branch
        line, offset = (self.line, self.offset) if self.line else (None, None)
        self.findings.append(
            Finding(code, shown(detail), line, offset, branch, seq, excerpt(start) if line else None, severity)
        )

    def find_unread(self, detail: str) -> None:
        """The line being read gives no row. Like lines in a row make one finding: a log may be nothing else."""
        self.find("unread_line", detail)
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

    def refuse(self, reason: str, code: str, detail: str, seq: int | None = None) -> None:
        """The harness refuses the log, for the first reason there is."""
        self.find(code, detail, "error", seq)
        if self.refusal is None:
            self.refusal = (reason, self.line or None)

    def bad_line(self, kind: object) -> None:
        """A line that gives no record; kind is the type it claims to have."""
        if self.issue is None:
            self.issue, self.records_before_issue = ("bad_record", self.line), self.records - 1
            self._refuse_if_turn_end(kind)
        elif kind == "turn/end":
            self.refuse("corrupt", "corrupt_middle", "a turn/end follows the first bad record")

    def open_issue(self, reason: str, detail: str, code: str | None = None) -> None:
        """The record being read is bad: unless a finished turn follows, the log is cut off before it."""
        if self.issue is None:
            self.issue = (reason, self.line)
            self.records_before_issue = self.records - 1
            self.find(code or reason, detail)

    def seq_gap(self, seq: int, kind: str) -> None:
        """A record whose sequence number is not the one due."""
        self.open_issue("seq_gap", f"sequence number {seq} where {self.accepted} was due")
        self._refuse_if_turn_end(kind)

    def take_back(self, reason: str, detail: str, kind: str, code: str = "bad_record") -> None:
        """The event accepted last is bad after all."""
        if self.issue is None:
            self.accepted -= 1
            self.open_issue(reason, detail, code)
            self._refuse_if_turn_end(kind)

    def _refuse_if_turn_end(self, kind: object) -> None:
        if kind == "turn/end":
            self.refuse("corrupt", "corrupt_middle", "the first bad record is a turn/end")

    def is_known(self, kind: str) -> bool:
        """Whether the log's version has that event type."""
        return kind in self._known

    def judge(self, event: Object, sources: Ranges | None) -> None:
        """Everything that the event read last may break: all of it while events are accepted, little behind that."""
        if self.issue is not None:
            self._judge_tail(event)
            return
        kind: str = event["type"]
        if self.version is not None:
            if kind in UNSUPPORTED and self.version < 2:
                self.refuse("unsupported_legacy", "unsupported_legacy", kind, event["seq"])
            elif kind not in self._known:
                self._unknown_type(event)
            if kind in self._checked or not self._is_plain(event, kind, sources):
                self.judge_alone(event, sources)
        if self.issue is None:
            self.judge_among_others(event, sources)

    def _is_plain(self, event: Object, kind: str, sources: Ranges | None) -> bool:
        """True for what needs no closer look at its envelope: nearly every event."""
        if not is_int(event.get("time")) or type(event.get("data")) is not dict:
            return False
        if kind not in self._surface:
            return len(event) == 4 and kind in self._known
        if event.get("surfaceOp") != "append":
            return False
        if sources is None:
            return len(event) == 5
        return len(event) == 6 and len(sources) == 2 and sources[1] < event["seq"]

    def judge_alone(self, event: Object, sources: Ranges | None) -> None:
        """What an event breaks whatever stands around it."""
        version = self.version or 0
        faults = (
            *envelope.envelope_faults(event, version),
            *envelope.surface_faults(event, sources, version, event["type"] in self._known),
            *envelope.payload_faults(event, version),
        )
        for fault in faults:
            if not fault.is_tail:
                self._refuse_for(fault, event)
        for fault in faults:
            if fault.is_tail:
                self.take_back(fault.reason, f"{event['type'][:100]} {fault.detail}", event["type"], fault.id)
                return

    def _judge_tail(self, event: Object) -> None:
        """What an event behind the first bad record still refuses."""
        if self.version is not None:
            for fault in envelope.faults_anywhere(event, self.version):
                self._refuse_for(fault, event)

    def _refuse_for(self, fault: envelope.Fault, event: Object) -> None:
        self.refuse(fault.reason, fault.id, f"{event['type'][:100]} {fault.detail}", event.get("seq"))

    def _unknown_type(self, event: Object) -> None:
        name = repr(event["type"][:100])
        if event.get("ignorable") is True:
            self.find("unknown_type", f"unknown type {name} is ignorable", seq=event["seq"])
        else:
            self.has_unknown_required_type = True
            self.refuse("unknown_type", "INV-04", f"unknown type {name} is not ignorable", event["seq"])

    def judge_among_others(self, event: Object, sources: Ranges | None) -> None:
        """What an event breaks by where it stands."""
        for breach in self.invariants.check(event, sources):
            self.note_breach(breach, event["seq"], event["type"])

    def note_breach(self, breach: Breach, seq: int, kind: str) -> None:
        """What the event accepted last breaks."""
        if self.version is None and breach.id in _NOT_IN_TUTORIALS:
            return
        if breach.is_summed:
            self.count(breach.id, breach.detail, breach.severity, seq)
        elif breach.severity != "error" or self.version is None:
            severity: Severity = "advisory" if breach.severity == "advisory" else "warning"
            self.find(breach.id, breach.detail, severity, seq)
        elif breach.id == "INV-23":
            self.take_back(breach.reason, breach.detail, kind, breach.id)
        else:
            self.refuse(breach.reason, breach.id, breach.detail, seq)

    def count(self, code: str, detail: str, severity: Severity | None, seq: int, times: int = 1) -> None:
        """What a log may hold any number of times; told at its end, with how often among the session's own events."""
        if seq >= self.cut:
            # No excerpt: what stored lines are read again as may be spelt differently.
            self.sums.add(Finding(code, detail, self.line, self.offset, self.branch, seq, None, severity), times)

    def inherit_until(self, seq: int) -> None:
        """The events before seq turn out to be the parent's."""
        self.cut = seq
        self.sums.clear()

    def finish(self) -> None:
        """The log is read to its end: what was counted, and what it leaves open."""
        self.findings += self.sums.findings()
        last_line = self.line if self.issue is None else self.issue[1] - 1
        for breach in self.invariants.finish():
            if breach.id == "INV-46" and self.issue is not None and self.refusal is not None:
                # Nothing was accepted, and what was read behind the first bad record may have closed the turn.
                continue
            if self.version is not None or breach.id not in _NOT_IN_TUTORIALS:
                place = (last_line, None, None, self.accepted - 1)
                self.findings.append(Finding(breach.id, breach.detail, *place, None, breach.severity))
