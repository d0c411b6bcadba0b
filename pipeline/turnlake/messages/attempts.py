"""The calls of a model that a log tells of, and the request that each of them was built from (spec 8.3 and 10.4)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from turnlake.errors import UsageError
from turnlake.format.values import Object, int_or_none
from turnlake.format.verdict import Verdict
from turnlake.messages.frozen import Frozen, Message
from turnlake.messages.log import Log, LogProjection, is_accepted, latest
from turnlake.messages.outline import CHUNK, ProofStep, outline_of
from turnlake.messages.usage import Tokens, stated, tokens_of

AttemptKey = tuple[int, int, int]
_ID = re.compile(r"(?P<session>.*)/(?P<turn>\d+)\.(?P<step>\d+)\.(?P<attempt>\d+)(?:/b(?P<branch>\d+))?", re.DOTALL)
Place = tuple[int, int | None, int | None]  # branch, turn, step
_SETTLING = frozenset(("assistant/message", "assistant/attempt"))
_STARTS = frozenset(("step/start", "llm/retry-started"))
# After these a stream row belongs to another call.
_ENDING = frozenset(("llm/retry", "llm/retry-started", "step/end", "turn/end"))
_BOUNDARIES = _STARTS | _ENDING | {"turn/start", "session/end-seed"}


@dataclass(frozen=True)
class Attempt:
    """One call of a model: `attempt` counts from 1 in its turn and step.

    Its request was built from the events with a seq below `before_seq`, None where that is all of them.
    `is_accepted` is False where the harness would not accept the events that tell of it.
    """

    turn: int | None
    step: int | None
    attempt: int
    branch: int
    before_seq: int | None
    is_accepted: bool

    @property
    def place(self) -> str:
        """What stands behind the session's id in the attempt_id of marts.attempts."""
        turn, step = ("" if number is None else number for number in (self.turn, self.step))
        return f"{turn}.{step}.{self.attempt}" + (f"/b{self.branch}" if self.branch else "")


@dataclass(frozen=True)
class AttemptRequest:
    """What one request was built from.

    `system` is the prompt of the request's header (formats 0 to 2); since format 3 it is the first message, and
    None here. `config` and `tools` are None where the log has no header before the call. `is_exact` is False
    where they rest on events that the harness would not accept, or that could not be followed to the letter.
    """

    attempt: Attempt
    system: str | None
    messages: tuple[Message, ...]
    tools: tuple[Frozen, ...] | None
    config: Frozen | None
    is_exact: bool


def project_attempt_request(log: Log, attempt: str | AttemptKey | Attempt) -> AttemptRequest:
    """The request of one of the log's own attempts: an attempt_id as in marts.attempts, (turn, step, attempt), or one
    of `attempts(log)`.

    Raises UsageError where the log tells of no such attempt, and for a compaction: its request is not recorded.
    """
    found = attempt if isinstance(attempt, Attempt) else _find(log, attempt)
    projection = _projection(log, found)
    header = projection.request_header(found.before_seq)
    return AttemptRequest(
        attempt=found,
        system=None if header is None else header.get("system"),
        messages=projection.messages(found.before_seq),
        tools=None if header is None else header.get("tools", ()),
        config=None if header is None else header.get("config"),
        is_exact=found.is_accepted and not projection.surface(found.before_seq).faults,
    )


def _projection(log: Log, attempt: Attempt) -> LogProjection:
    """The projection that holds the attempt: behind a bad record, and in an earlier branch, one of its own."""
    is_shown = log.verdict.verdict == "refused" and log.records[-1].branch == attempt.branch
    if attempt.is_accepted or is_shown:
        return log.projection
    return LogProjection(latest(one for one in log.records if one.branch <= attempt.branch), log.version)


def _find(log: Log, wanted: str | AttemptKey) -> Attempt:
    key, branch = _key(log, wanted) if isinstance(wanted, str) else (wanted, 0)
    for attempt in attempts(log):
        if (attempt.turn, attempt.step, attempt.attempt) == key and attempt.branch == branch:
            return attempt
    raise UsageError(f"the log has no attempt {'.'.join(map(str, key))}{f' in branch {branch}' if branch else ''}")


def _key(log: Log, attempt_id: str) -> tuple[AttemptKey, int]:
    """Attempt and branch that an id names. A session may have got a suffix in a lake."""
    parts = _ID.fullmatch(attempt_id)
    if parts is None:
        raise UsageError(f"{attempt_id}: no id of a model's attempt; it reads SESSION/TURN.STEP.ATTEMPT")
    own = log.header.id if log.header is not None else None
    if own is not None and parts["session"] != own and not re.fullmatch(r"~[0-9a-f]{8}", parts["session"][len(own) :]):
        raise UsageError(f"{attempt_id}: not an attempt of session {own}")
    return (int(parts["turn"]), int(parts["step"]), int(parts["attempt"])), int(parts["branch"] or 0)


@dataclass
class _Mark:
    """Something in a step that tells of a call, or may; `usage` is what counts of what it states."""

    kind: str
    origin: ProofStep
    before_seq: int | None
    is_late: bool = False
    usage: Object | None = None


@dataclass
class _StepCalls:
    marks: list[_Mark] = field(default_factory=list)
    is_ended: bool = False


def attempts(log: Log) -> tuple[Attempt, ...]:
    """The log's own attempts at calling a model, in the order of its lines; compactions are none of them."""
    steps = outline_of(log.records, None if log.header is None else log.header.seed_length)
    return tuple(attempt for attempt, _ in counted_attempts(steps, log.verdict))


def counted_attempts(steps: Iterable[ProofStep], verdict: Verdict) -> list[tuple[Attempt, Tokens]]:
    """The same of the outline of a log, with the tokens of each: those of its message or attempt event, else of its
    last usage chunk."""
    walk = _Walk()
    for step in own_steps(steps, verdict):
        walk.see(step)
    found = [
        (
            mark.origin.line,
            Attempt(turn, step, number, branch, mark.before_seq, is_accepted(verdict, mark.origin)),
            mark,
        )
        for (branch, turn, step), calls in walk.steps.items()
        for number, mark in enumerate(_calls(calls.marks), 1)
    ]
    return [(attempt, tokens_of(mark.usage)) for _, attempt, mark in sorted(found, key=lambda one: one[0])]


def counted_compactions(steps: Iterable[ProofStep], verdict: Verdict) -> list[tuple[int, Tokens]]:
    """A log's own calls for the summary of a compaction, in the order of its lines: branch and tokens of each."""
    summaries = (step for step in own_steps(steps, verdict) if step.kind == "compaction/summary")
    return [(step.branch, tokens_of(stated(step.usage))) for step in summaries]


def own_steps(steps: Iterable[ProofStep], verdict: Verdict) -> Iterator[ProofStep]:
    """The steps that are not inherited."""
    cut = verdict.inherited_event_count
    return (step for step in steps if step.seq >= cut)


def _calls(marks: list[_Mark]) -> Iterator[_Mark]:
    """The marks of one step that are calls: slots, retries of what left none, a last start that nothing follows."""
    before = None
    for mark in marks:
        is_unanswered = mark.kind in _STARTS and mark is marks[-1] and not mark.is_late
        if mark.kind == "slot" or (mark.kind == "llm/retry" and before != "slot") or is_unanswered:
            yield mark
        before = mark.kind


class _Walk:
    """One pass over a log's outline that finds what tells of calls in each step."""

    def __init__(self) -> None:
        self.steps: defaultdict[Place, _StepCalls] = defaultdict(_StepCalls)
        # The step whose stream the row before belongs to; where that stream has finished, only its message joins it.
        self._open: Place | None = None
        self._is_finished = False
        # The call whose rows these are.
        self._call: _Mark | None = None
        self._waiting: _Mark | None = None
        self._branch = 0

    def see(self, one: ProofStep) -> None:
        """Go on by one event, or by chunks in a row."""
        if one.branch != self._branch:
            self._branch, self._open, self._waiting = one.branch, None, None
        if one.kind == CHUNK:
            place = _place(one)
            if place != self._open or self._is_finished or self._call is None:
                self._call = self._mark("slot", one, place)
            self._call.usage = stated(one.usage) or self._call.usage
            self._open, self._is_finished = place, one.is_finish
        elif one.kind in _SETTLING:
            self._settle(one)
        elif one.kind in _BOUNDARIES:
            self._boundary(one)

    def _settle(self, one: ProofStep) -> None:
        place = _place(one)
        joins = one.kind == "assistant/message" and place == self._open and not one.has_no_sources
        if not joins or self._call is None:
            self._call = self._mark("slot", one, place)
        self._call.usage = stated(one.usage) or self._call.usage
        self._open = None

    def _boundary(self, one: ProofStep) -> None:
        if self._waiting is not None:
            self._waiting.before_seq, self._waiting = one.seq, None
        if one.kind in _ENDING:
            self._open = None
        place = _place(one)
        if one.kind == "step/end":
            self.steps[place].is_ended = True
        elif one.kind == "llm/retry":
            self._mark(one.kind, one, place)
        elif one.kind in _STARTS:
            self._waiting = self._mark(one.kind, one, place)
            self._waiting.before_seq = None

    def _mark(self, kind: str, one: ProofStep, place: Place) -> _Mark:
        calls = self.steps[place]
        mark = _Mark(kind, one, one.seq, calls.is_ended)
        calls.marks.append(mark)
        return mark


def _place(one: ProofStep) -> Place:
    return one.branch, int_or_none(one.turn), int_or_none(one.step)
