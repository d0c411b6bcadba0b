"""The second count of tool calls: every round trip put together from its parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from counter_log import Event, Log, Object, Place

MADE_UP = {"TOOL_NOT_STARTED": "not_started", "TOOL_OUTCOME_UNKNOWN": "unknown"}


@dataclass
class Tool:
    """One round trip of a tool call; `place` and `call_id` find its parts."""

    place: Place
    call_id: str
    name: Any = None
    parent: str | None = None
    call: Event | None = None
    result: Event | None = None
    asked: list[tuple[Event, Event | None]] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        if self.result is None:
            return "open"
        error = error_of(self.result)
        if error.get("code") in MADE_UP:
            return MADE_UP[error["code"]]
        answers = {decided.data.get("outcome") for _, decided in self.asked if decided} - {"allowed-once"}
        if error.get("code") == "ABORTED_BEFORE_DISPATCH" or error.get("name") == "AbortError":
            return "aborted"
        if answers:
            return "aborted" if answers == {"cancelled"} else "denied"
        return "error" if _is_error(self.result) else "ok"

    @property
    def wall(self) -> int | None:
        return self.result.time - self.call.time if self.call and self.result else None

    @property
    def wait(self) -> int | None:
        """Time that people took, within the call; None while they still do."""
        if self.call is None or self.result is None:
            return None
        spans = []
        for asked, decided in self.asked:
            if decided is None:
                return None
            spans.append((max(asked.time, self.call.time), min(decided.time, self.result.time)))
        return union(spans)

    @property
    def exec(self) -> int | None:
        return self.wall - self.wait if self.wall is not None and self.wait is not None else None


def union(spans: Iterable[tuple[int, int]]) -> int:
    """Milliseconds that lie in at least one of the spans."""
    total, reached = 0, None
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        total += max(0, end - (start if reached is None else max(start, reached)))
        reached = end if reached is None else max(reached, end)
    return total


def tool_blocks(message: Event) -> list[dict[str, Any]]:
    blocks = message.data.get("message", {}).get("content") or []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool-call"]


def error_of(event: Event) -> dict[str, Any]:
    return event.data.get("error") or {}


def _result(event: Event) -> dict[str, Any]:
    """The part of a result that names its call: the message, before version 4 the block in it."""
    message = event.data.get("message", {})
    blocks = [block for block in message.get("content", ()) if block.get("type") == "tool-result"]
    return blocks[0] if blocks else message


def call_id_of(event: Event) -> str:
    return str(_result(event).get("toolCallId", ""))


def _is_error(event: Event) -> bool:
    nested = event.type == "tool/code-dispatch"
    return bool((event.data if nested else _result(event)).get("isError"))


class Pairing:
    """A pass over a log that puts the parts of its tool calls together."""

    def __init__(self, log: Log) -> None:
        self.tools: dict[tuple[Place, str], list[Tool]] = defaultdict(list)
        self.taken: dict[tuple[Place, str, str], int] = defaultdict(int)
        self.bracket: Place = (None, None)
        self.asked: dict[Any, tuple[Tool, int]] = {}
        for event in log.state():
            self.see(event)

    def part(self, place: Place, call_id: Any, kind: str) -> Tool:
        """The n-th part of a kind belongs to the n-th call of that id in the step."""
        call_id = str(call_id or "")
        position = self.taken[(place, call_id, kind)]
        self.taken[(place, call_id, kind)] += 1
        same = self.tools[(place, call_id)]
        if position == len(same):
            same.append(Tool(place, call_id))
        return same[position]

    def see(self, event: Event) -> None:
        data = event.data
        if event.type == "step/start":
            self.bracket = event.place
        elif event.type in ("turn/start", "turn/end", "step/end"):
            self.bracket = (None if event.type == "turn/end" else data.get("turn"), None)
        elif event.type == "assistant/message":
            for block in tool_blocks(event):
                self.part(event.place, block.get("id"), "block").name = block.get("name")
        elif event.type == "tool/call":
            tool = self.part(event.place, data.get("callId"), "call")
            tool.call, tool.name = event, data.get("name")
        elif event.type == "tool/result" and event.op == "append":
            self.part(event.place, call_id_of(event), "result").result = event
        elif event.type.startswith("tool/code-dispatch"):
            self.see_dispatch(event)
        elif event.type.startswith("approval/"):
            self.see_approval(event.type, event)

    def see_dispatch(self, event: Event) -> None:
        is_start = event.type == "tool/code-dispatch-start"
        tool = self.part(self.bracket, event.data["subCallId"], "call" if is_start else "result")
        tool.name, tool.parent = event.data["name"], event.data["parentCallId"]
        if is_start:
            tool.call = event
        else:
            tool.result = event

    def see_approval(self, type_: str, event: Event) -> None:
        data = event.data
        if type_ == "approval/asked":
            tool = self.asked_about(data)
            if tool:
                self.asked[data["id"]] = (tool, len(tool.asked))
                tool.asked.append((event, None))
        elif type_ == "approval/decided" and data.get("id") in self.asked:
            tool, position = self.asked[data["id"]]
            tool.asked[position] = (tool.asked[position][0], event)

    def asked_about(self, data: Object) -> Tool | None:
        """The open call with that id that started last; without an id the only open one of that tool in the step."""
        running = [tool for same in self.tools.values() for tool in same if tool.result is None]
        if data.get("callId"):
            named = [tool for tool in running if tool.call_id == data["callId"]]
            return next((tool for tool in reversed(named) if tool.call), named[0] if named else None)
        here = [tool for tool in running if tool.place == self.bracket and tool.call]
        named = [tool for tool in here if tool.name == data.get("toolName")]
        return named[0] if len(named) == 1 else None


def tools(log: Log) -> list[Tool]:
    """All round trips of the log's own part, nested ones included."""
    return [tool for same in Pairing(log).tools.values() for tool in same]
