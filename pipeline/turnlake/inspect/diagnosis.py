"""The runbook: for each turn that did not run to its end what stood last, what is missing, what that means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from turnlake.inspect.causes import CAUSES, PHASES, SETUP_CODES
from turnlake.inspect.evidence import CutCall, Evidence, Failure
from turnlake.inspect.inbox import NOT_TOLD, rejected
from turnlake.inspect.overview import settings
from turnlake.inspect.session import Row, Session
from turnlake.inspect.words import count, end_words, message_text, one_line


class Step(NamedTuple):
    """A command to go on with, and what it shows."""

    command: str
    shows: str


class Bracket(NamedTuple):
    """The last start or end of turn or step that was written before the turn stopped."""

    type: str
    seq: int
    step: int | None
    line: int


@dataclass(frozen=True)
class Diagnosis:
    """Why one turn stopped. `cause` is one of `causes.CAUSES`; `may_be_running`: nothing in the log rules that out."""

    turn: int
    state: str
    last_phase: str | None
    cause: str
    headline: str
    ended: str
    last_bracket: Bracket | None
    missing: tuple[str, ...]
    meaning: str
    notes: tuple[str, ...]
    failure: Failure | None
    may_be_running: bool
    provider: str | None
    model: str | None
    settings: dict[str, str | None]
    format_version: int | None
    next: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it, tuples with names as objects."""
        return asdict(self) | {
            "last_bracket": None if self.last_bracket is None else self.last_bracket._asdict(),
            "failure": None if self.failure is None else self.failure._asdict(),
            "next": [step._asdict() for step in self.next],
        }


def diagnose(session: Session) -> list[Diagnosis]:
    """A diagnosis of each own turn that did not run to its end, in the order of the log."""
    return [diagnosis(Evidence(session, turn)) for turn in session.turns if turn["state"] != "completed"]


def diagnosis(evidence: Evidence) -> Diagnosis:
    """The diagnosis of one turn."""
    turn, session = evidence.turn, evidence.session
    cause = cause_of(evidence)
    bracket = evidence.last_bracket
    end = evidence.events[-1]["seq"] + 1 if evidence.events else None
    return Diagnosis(
        turn=turn["turn"],
        state=turn["state"],
        last_phase=turn["last_phase"],
        cause=cause,
        headline=CAUSES[cause].headline,
        ended=end_words(turn),
        last_bracket=None if bracket is None else Bracket(*(bracket[name] for name in Bracket._fields)),
        missing=CAUSES[cause].missing,
        meaning=CAUSES[cause].meaning,
        notes=tuple(_notes(evidence)),
        failure=evidence.failure,
        may_be_running=turn["is_dangling"] and not turn["is_abandoned"],
        provider=turn["provider"],
        model=turn["model"],
        settings=settings(session, end),
        format_version=session.facts["format_version"],
        next=tuple(_next(evidence)),
    )


def cause_of(evidence: Evidence) -> str:
    """The name of the cause: what the turn says of its end, else what the log shows last."""
    turn = evidence.turn
    match turn["state"]:
        case "blocked":
            return "claim_rejected" if turn["is_empty"] else "step_rejected"
        case "max-tokens":
            return "max_tokens_empty" if turn["empty_max_tokens_count"] else "max_tokens"
        case "aborted":
            return "cancelled"
        case "forked":
            return "forked"
        case "error":
            return _failed(evidence)
        case "dangling" | "interrupted":
            return _cut_off(evidence)
    return "unknown_end"


def _failed(evidence: Evidence) -> str:
    failure = evidence.failure
    code = failure.code if failure else None
    if evidence.unanswered:
        return "tools_failed"
    if code == "CONTEXT_WINDOW_EXCEEDED":
        return "context_overflow"
    if code in SETUP_CODES:
        return "provider_setup"
    if code == "QUOTA":
        return "quota_exhausted"
    if evidence.retries:
        return "retries_exhausted" if evidence.are_retries_used_up else "failed_after_retries"
    if not evidence.attempts:
        return "failed_before_request"
    if code == "STREAM_CLOSED" or evidence.turn["last_phase"] == "streaming":
        return "stream_broke"
    return "provider_error"


def _cut_off(evidence: Evidence) -> str:
    match evidence.turn["last_phase"]:
        case "claim":
            return "claim_unfinished"
        case "request":
            return _without_answer(evidence)
        case "streaming":
            return "stream_broke"
        case "tools":
            return "call_without_result"
    # A result that the harness made up answers nothing.
    if evidence.unanswered:
        return "call_without_result"
    return "step_not_closed" if evidence.is_step_open else "turn_not_closed"


def _without_answer(evidence: Evidence) -> str:
    if evidence.is_compacting:
        return "compaction_unfinished"
    if evidence.is_waiting_to_retry:
        return "retry_not_started"
    if not evidence.has_header:
        return "request_not_dispatched"
    version = evidence.session.facts["format_version"]
    return "answer_not_recorded" if version is not None and version >= 2 else "request_unanswered"


def _notes(evidence: Evidence) -> Iterator[str]:
    """What else of the turn a reader should know."""
    turn = evidence.turn
    if turn["state"] == "blocked":
        found = [f"rejected: {one_line(message_text(one))}" for one in rejected(evidence.session, turn)]
        yield from found or [f"rejected: {NOT_TOLD}"]
    yield from map(_limit_words, evidence.cut_calls)
    if turn["state"] == "aborted":
        yield f"it was stopped {_stage(evidence)}"
    if turn["is_abandoned"]:
        yield "the session went on without it: it can't be running any more"
    elif turn["is_dangling"]:
        yield "it may still be running; if nothing runs any more, its process has died"
    if turn["is_repaired"]:
        yield "the harness closed the turn when it loaded the session again; what stands at its end is made up"
    for call in evidence.unanswered:
        yield f"{_call_name(call)} {_UNANSWERED[call['outcome']] if call['call_seq'] is not None else _NOT_STARTED}"
    yield from (f"{_call_name(call)} was denied" for call in evidence.calls if call["outcome"] == "denied")
    cancelled = [call for call in evidence.calls if call["outcome"] == "aborted"]
    if cancelled:
        yield f"{count(len(cancelled), 'tool call')} cancelled before dispatch: {', '.join(map(_call_name, cancelled))}"
    if evidence.retries:
        yield f"asked again {count(len(evidence.retries), 'time')} in step {evidence.retries[-1]['step']}"
    if turn["unknown_usage_attempt_count"]:
        calls = count(turn["unknown_usage_attempt_count"], "model call")
        them = "it" if turn["unknown_usage_attempt_count"] == 1 else "them"
        yield f"{calls} of unknown usage: what the provider billed for {them} is in no sum"
    yield from _closing_notes(evidence)


def _limit_words(cut: CutCall) -> str:
    """The limit that a request stated, and what its answer used of it."""
    used = "an unknown number of" if cut.output_tokens is None else f"{cut.output_tokens:,}"
    said = f"call {cut.attempt} of step {cut.step} used {used} output tokens"
    if cut.max_tokens is None:
        return f"{said}; its request states no maxTokens, so the limit was that of the provider or model"
    limit = f"{said}; maxTokens of its request was {cut.max_tokens:,}"
    is_lower = cut.output_tokens is not None and cut.output_tokens < cut.max_tokens
    return f"{limit}: a lower limit, of the provider or model, cut it off" if is_lower else limit


_UNANSWERED = {
    "open": "was started and has no result: what it did is unknown",
    "unknown": "was started; its result was made up afterwards: what it did is unknown",
    "not_started": "was never started; its result was made up afterwards",
}
_NOT_STARTED = "was asked for and never started"


def _stage(evidence: Evidence) -> str:
    if evidence.is_answer_cut:
        return "while an answer came in; the part that had arrived is kept and the model sees it"
    if any(call["outcome"] == "aborted" for call in evidence.calls):
        return "while tools were due"
    if evidence.is_waiting_to_retry:
        return "while it waited to ask again"
    return PHASES.get(evidence.turn["last_phase"], "at a point the log does not tell")


def _closing_notes(evidence: Evidence) -> Iterator[str]:
    closers = [row for row in evidence.session.closers if row["turn"] == evidence.turn["turn"]]
    if evidence.turn["is_dangling"] and closers:
        made = ", ".join(f"{row['type']} {row['error_code'] or ''}".rstrip() for row in closers)
        yield f"opened again, the harness will close it with {made}"


def _call_name(call: Row) -> str:
    number = f" #{call['call_seq']}" if call["call_seq"] is not None else ""
    return f"{call['tool_name'] or 'an unnamed tool'}{number} [{call['call_id']}]"


def _next(evidence: Evidence) -> Iterator[Step]:
    session, turn = evidence.session, str(evidence.turn["turn"])
    yield Step(session.command("show", "--turn", turn), "what happened in the turn")
    if evidence.attempts:
        yield Step(session.command("show", "--turn", turn, "--messages"), "what its last request showed the model")
    for call in evidence.unanswered[:1]:
        yield Step(session.command("trace", f"--call={call['call_id']}"), "the call, from end to end")
    failure = evidence.failure
    if failure is not None and failure.seq is not None:
        yield Step(session.command("trace", "--seq", str(failure.seq)), "the event that tells of the failure, whole")
