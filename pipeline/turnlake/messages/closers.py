"""The events that the harness appends to close an open turn after a crash (spec section 2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from turnlake.format.values import Object
from turnlake.messages.frozen import Frozen, freeze

Cause = Literal["interrupted", "forked"]


class Verdict(NamedTuple):
    """What a made-up result says of its call. Texts are the harness's own, letter by letter: the model reads them."""

    name: str
    code: str
    # None where nothing but the text's SHA-256 is known.
    texts: dict[Cause, str | None]


STARTED = Verdict(
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
NOT_STARTED = Verdict(
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
    state = _Open(version or 0)
    for event in events:
        state.see(event)
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

    def see(self, event: Object) -> None:
        self.next_seq = int(event["seq"]) + 1
        self.time = self.time if event.get("time") is None else event["time"]
        act, data = _ACTS.get(event["type"]), event.get("data")
        if act is not None and isinstance(data, dict):
            act(self, event, data)

    def _turn_start(self, event: Object, data: Object) -> None:
        self.turn, self.step = data.get("turn"), None
        self.calls.clear()

    def _turn_end(self, event: Object, data: Object) -> None:
        self.turn = self.step = None
        self.calls.clear()

    def _step_start(self, event: Object, data: Object) -> None:
        self.step = data.get("step")

    def _step_end(self, event: Object, data: Object) -> None:
        self.step = None
        self.calls.clear()

    def _advertise(self, event: Object, data: Object) -> None:
        message = data.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, (list, tuple)) else ():
            if isinstance(block, dict) and block.get("type") == "tool-call" and isinstance(block.get("id"), str):
                self.calls[block["id"]] = _Call(data.get("step"))

    def _start(self, event: Object, data: Object) -> None:
        call_id = data.get("callId")
        if isinstance(call_id, str) and call_id in self.calls:
            self.calls[call_id].seq = event["seq"]

    def _settle(self, event: Object, data: Object) -> None:
        message = data.get("message")
        source = message.get("source") if isinstance(message, dict) else None
        call_id = source.get("callId") if isinstance(source, dict) else None
        if not isinstance(call_id, str) or call_id not in self.calls:
            return
        place = (data.get("turn"), data.get("step"))
        is_own = event.get("surfaceOp") == "append" and place == (self.turn, self.calls[call_id].step)
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
        verdict = NOT_STARTED if call.seq is None else STARTED
        data = {
            "turn": self.turn,
            "step": call.step,
            "message": self._message(call_id, f"{cause}-tool-result-{call_id}-{seq}", verdict.texts[cause]),
            "error": {"name": verdict.name, "code": verdict.code},
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
