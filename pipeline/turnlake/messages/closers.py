"""The events that the harness appends to close an open turn after a crash (spec section 2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from turnlake.format.values import Object
from turnlake.messages.frozen import Frozen, freeze
from turnlake.messages.outline import ProofStep, bare_step

Cause = Literal["interrupted", "forked"]


class ClosingError(NamedTuple):
    """What a made-up result says of its call. Texts are the harness's own, letter by letter: the model reads them."""

    name: str
    code: str
    # None where nothing but the text's SHA-256 is known.
    texts: dict[Cause, str | None]


STARTED = ClosingError(
    "ToolOutcomeUnknownError",
    "TOOL_OUTCOME_UNKNOWN",
    {
        "interrupted": (
            "The tool call was interrupted after it was recorded, but no result was durably recorded. Its outcome is "
            "unknown. Decide whether to retry from the tool semantics: retry only if the operation is read-only or "
            "idempotent; if it may have side effects, first verify external state or ask the user. Do not retry "
            "blindly."
        ),
        "forked": None,
    },
)
NOT_STARTED = ClosingError(
    "ToolNotStartedError",
    "TOOL_NOT_STARTED",
    {
        "interrupted": (
            "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed."
        ),
        "forked": None,
    },
)


def closers(events: Iterable[Object], version: int | None, *, cause: Cause = "interrupted") -> tuple[Frozen, ...]:
    """The events that would follow a log's events if the harness loaded it now; none where no turn is open.

    A result for each call without one, then the end of the open step and of the turn; their seqs go on from the
    last event's, their time is the last one stated. `forked` is the cause where a fork of format 4 cuts an open
    turn; the texts of its results are not known to us, so their `text` is None.
    """
    return closing_events((bare_step(event, 0, 0, int(event["seq"])) for event in events), version, cause=cause)


def closing_events(
    steps: Iterable[ProofStep], version: int | None, *, cause: Cause = "interrupted"
) -> tuple[Frozen, ...]:
    """The same for the outline of a log."""
    state = _Open(version or 0)
    for step in steps:
        state.see(step)
    return tuple(freeze(event) for event in state.close(cause))


@dataclass
class _Call:
    step: Any
    seq: int | None = None


class _Open:
    """What is open after the events seen so far."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.turn: Any = None
        self.step: Any = None
        self.calls: dict[str, _Call] = {}
        self.next_seq = 0
        self.time: int | None = None

    def see(self, one: ProofStep) -> None:
        self.next_seq = one.seq + one.count
        self.time = self.time if one.time is None else one.time
        act = _ACTS.get(one.kind)
        if act is not None and one.has_data:
            act(self, one)

    def _turn_start(self, one: ProofStep) -> None:
        self.turn, self.step = one.turn, None
        self.calls.clear()

    def _turn_end(self, one: ProofStep) -> None:
        self.turn = self.step = None
        self.calls.clear()

    def _step_start(self, one: ProofStep) -> None:
        self.step = one.step

    def _step_end(self, one: ProofStep) -> None:
        self.step = None
        self.calls.clear()

    def _advertise(self, one: ProofStep) -> None:
        for call_id in one.call_ids:
            if isinstance(call_id, str):
                self.calls[call_id] = _Call(one.step)

    def _start(self, one: ProofStep) -> None:
        [call_id] = one.call_ids
        if isinstance(call_id, str) and call_id in self.calls:
            self.calls[call_id].seq = one.seq

    def _settle(self, one: ProofStep) -> None:
        [call_id] = one.call_ids
        if not isinstance(call_id, str) or call_id not in self.calls:
            return
        is_own = one.op == "append" and (one.turn, one.step) == (self.turn, self.calls[call_id].step)
        if self.version < 4 or is_own:
            del self.calls[call_id]

    def close(self, cause: Cause) -> list[Object]:
        """The closing events."""
        if self.turn is None:
            return []
        out: list[Object] = []
        for call_id, call in self.calls.items():
            out.append(self._result(call_id, call, self.next_seq + len(out), cause))
        place = {"turn": self.turn}
        if self.step is not None:
            out.append(self._event("step/end", self.next_seq + len(out), {**place, "step": self.step}))
        out.append(self._event("turn/end", self.next_seq + len(out), {**place, "reason": {"kind": cause}}))
        return out

    def _event(self, kind: str, seq: int, data: Object) -> Object:
        return {"type": kind, "seq": seq, "time": self.time, "data": data}

    def _result(self, call_id: str, call: _Call, seq: int, cause: Cause) -> Object:
        error = NOT_STARTED if call.seq is None else STARTED
        data = {
            "turn": self.turn,
            "step": call.step,
            "message": self._message(call_id, f"{cause}-tool-result-{call_id}-{seq}", error.texts[cause]),
            "error": {"name": error.name, "code": error.code},
        }
        event = self._event("tool/result", seq, data) | {"surfaceOp": "append"}
        return event if call.seq is None else event | {"sourceEventSeqs": [call.seq]}

    def _message(self, call_id: str, message_id: str, text: str | None) -> Object:
        source = {"kind": "tool", "callId": call_id}
        result: Object = {"toolCallId": call_id, "isError": True, "content": [{"type": "text", "text": text}]}
        if self.version >= 4:
            return {"id": message_id, "role": "tool", "source": source, **result}
        return {"id": message_id, "role": "user", "source": source, "content": [{"type": "tool-result", **result}]}


_ACTS = {
    "turn/start": _Open._turn_start,
    "turn/end": _Open._turn_end,
    "step/start": _Open._step_start,
    "step/end": _Open._step_end,
    "assistant/message": _Open._advertise,
    "tool/call": _Open._start,
    "tool/result": _Open._settle,
}
