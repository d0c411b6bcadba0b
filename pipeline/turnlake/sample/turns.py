"""Turns of every kind, drawn at random: how each of the ends of a turn comes about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from turnlake.sample.content import Content, Result
from turnlake.sample.session import Session
from turnlake.sample.shapes import Json
from turnlake.sample.streams import Block

RATE_LIMIT: Json = {"message": "Too many requests, slow down", "code": "RATE_LIMIT", "status": 429}
SERVER: Json = {"message": "upstream connect error", "code": "SERVER", "status": 502}
FAILURES = (RATE_LIMIT, RATE_LIMIT, SERVER)
FATAL: Json = {"message": "Insufficient balance", "code": "QUOTA", "status": 402}
ABORTED = Result("Error: tool call aborted", 900, True, {"name": "AbortError", "code": "ABORTED"})
NOT_DISPATCHED = Result(
    "Error: tool call aborted before dispatch", 0, True, {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}
)
USER_ABORT: Json = {"kind": "aborted", "reason": {"kind": "user"}}
CALLS = (1, 1, 1, 1, 1, 2, 3)
STEPS = (1, 2, 3, 3, 4, 5, 6, 8, 12)


@dataclass(frozen=True)
class Dials:
    """Sizes of what a session holds, in tokens."""

    thinking: int
    saying: int
    arguments: int
    result: int

    def scaled(self, share: float) -> Dials:
        """The same mixture, smaller."""
        return Dials(*(max(4, int(size * share)) for size in (self.thinking, self.saying, self.arguments, self.result)))


Delegate = Callable[[Session, Block], str]


class Turns:
    """Plays turns on a session. `has_room` tells whether the session may still grow."""

    def __init__(
        self, session: Session, content: Content, rng: Random, dials: Dials, has_room: Callable[[], bool]
    ) -> None:
        self._session = session
        self._content = content
        self._rng = rng
        self._dials = dials
        self._has_room = has_room

    def completed(self) -> None:
        """The agent works until it has an answer."""
        self._start()
        self._work_out()

    def assigned(self, task: str) -> str:
        """The one turn of a subagent; gives its answer."""
        self._session.start_turn(task)
        return self._work_out()

    def delegated(self, delegate: Delegate) -> None:
        """The agent has a subagent do a part; `delegate` runs it and gives its answer."""
        session = self._session
        self._start()
        session.start_step()
        call = self._content.delegation()
        session.answer([*self._thoughts(), call])
        seq = session.start_call(call)
        session.end_call(call, seq, Result(delegate(session, call), 5))
        session.end_step()
        session.start_step()
        session.answer([self._content.said(self._size(self._dials.saying))])
        session.end_step()
        session.end_turn()

    def refused(self) -> None:
        """The provider refuses for good."""
        self._fail(FATAL)

    def overloaded(self) -> None:
        """The provider refuses, and refuses again after retries."""
        self._fail(None)

    def cut_off(self) -> None:
        """The answer hits the output limit."""
        self._cut_off([*self._thoughts(), self._content.said(self._size(2 * self._dials.saying))])

    def cut_off_empty(self) -> None:
        """The answer hits the output limit inside a tool call, with nothing to show for it."""
        self._cut_off([self._content.call(self._size(self._dials.saying))])

    def aborted(self) -> None:
        """A person cancels while the model answers."""
        session = self._session
        self._start()
        session.start_step()
        session.interrupt([self._content.said(self._size(self._dials.saying))])
        session.end_step()
        session.end_turn(USER_ABORT)

    def aborted_in_tools(self) -> None:
        """A person cancels while tools run: one is aborted, the other never dispatched."""
        session = self._session
        self._start()
        session.start_step()
        calls = [self._content.call(self._dials.arguments) for _ in range(2)]
        session.answer([*self._thoughts(), *calls])
        for call, result in zip(calls, (ABORTED, NOT_DISPATCHED), strict=True):
            session.end_call(call, session.start_call(call), result)
        session.end_step()
        session.end_turn(USER_ABORT)

    def blocked(self) -> None:
        """A gate refuses the turn before its first step."""
        self._start()
        self._session.end_turn({"kind": "blocked"})

    def dangling(self) -> None:
        """The process dies: in the middle of a stream, or with one call running and one not started."""
        session = self._session
        self._start()
        session.start_step()
        if self._rng.random() < 0.4:
            session.crash([self._content.said(self._size(self._dials.saying))])
            return
        calls = [self._content.call(self._dials.arguments) for _ in range(2)]
        session.answer([*self._thoughts(), *calls])
        session.start_call(calls[0])

    def _start(self) -> None:
        self._session.start_turn(self._content.request(), self._rng.choice((1, 1, 2, 3, 5, 900, 4000)))

    def _work_out(self) -> str:
        for _ in range(self._rng.choice(STEPS) - 1):
            if not self._has_room():
                break
            self._work()
        self._session.start_step()
        if self._rng.random() < 0.03:
            self._recover()
        answer = self._content.said(self._size(3 * self._dials.saying))
        self._session.answer([*self._thoughts(), answer])
        self._session.end_step()
        self._session.end_turn()
        return answer.text

    def _fail(self, failure: Json | None) -> None:
        session = self._session
        self._start()
        self._work()
        session.start_step()
        failure = failure or self._recover()
        session.fail(failure)
        session.end_step()
        session.end_turn({"kind": "error", "error": failure})

    def _cut_off(self, blocks: list[Block]) -> None:
        self._start()
        self._session.start_step()
        self._session.cut_off(blocks)
        self._session.end_step()
        self._session.end_turn({"kind": "max-tokens"})

    def _work(self) -> None:
        """A step with tool calls."""
        session, rng = self._session, self._rng
        session.start_step()
        if rng.random() < 0.02:
            self._recover()
        calls = [self._content.call(self._size(self._dials.arguments)) for _ in range(rng.choice(CALLS))]
        remark = [self._content.said(self._size(self._dials.saying))] if rng.random() < 0.6 else []
        session.answer([*self._thoughts(), *remark, *calls])
        if rng.random() < 0.06:
            self._ask(calls.pop(0))
        self._run(calls)
        session.end_step()
        if session.meter.context > 110_000:
            session.compact(self._content.prose(400), in_turn=True)

    def _run(self, calls: list[Block]) -> None:
        """Calls run in parallel; their results come in any order."""
        running = [(call, self._session.start_call(call)) for call in calls]
        self._rng.shuffle(running)
        for call, seq in running:
            self._session.end_call(call, seq, self._content.result(call, self._result_size()))

    def _ask(self, call: Block) -> None:
        """A call that needs a person's approval."""
        rng = self._rng
        seq = self._session.start_call(call)
        outcome = rng.choice(("allowed-once",) * 4 + ("rejected",))
        reason = f"outside the workspace:{self._content.prose(6)}"
        self._session.approve(call, reason, rng.randrange(900, 240_000), outcome)
        if outcome == "rejected":
            result = Result("Error: the user rejected this call", 1, True)
        else:
            result = self._content.result(call, self._result_size())
        self._session.end_call(call, seq, result)

    def _recover(self) -> Json:
        """A failed attempt or two, each followed by a retry; gives the last failure."""
        retry_id, failure = self._session.new_id(), self._rng.choice(FAILURES)
        for number in range(1, self._rng.choice((2, 2, 3))):
            partial = [self._content.said(self._size(self._dials.saying))] if self._rng.random() < 0.4 else []
            self._session.fail(failure, partial, is_metered=bool(partial))
            self._session.retry(retry_id, number, failure)
        return failure

    def _thoughts(self) -> list[Block]:
        if self._rng.random() < 0.85:
            return [self._content.thought(self._size(self._dials.thinking))]
        return []

    def _size(self, mean: int) -> int:
        """A size around `mean`, seldom far above it."""
        return max(3, mean * self._rng.choice((20, 40, 60, 80, 100, 120, 180, 300)) // 112)

    def _result_size(self) -> int:
        return max(20, min(1500, self._size(self._dials.result)))


class Deck:
    """Kinds of turns as a deck of cards: drawn one after the other, so that also small samples hold every kind."""

    CARDS: tuple[Callable[[Turns], None], ...] = (
        *[Turns.completed] * 50,
        Turns.refused,
        Turns.overloaded,
        Turns.cut_off,
        Turns.cut_off_empty,
        Turns.aborted,
        Turns.aborted_in_tools,
        Turns.blocked,
    )

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._left: list[Callable[[Turns], None]] = []

    def play(self, turns: Turns) -> None:
        """Play a turn of the next kind."""
        if not self._left:
            self._left = list(self.CARDS)
            self._rng.shuffle(self._left)
        self._left.pop()(turns)
