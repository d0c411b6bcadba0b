"""The dialect of public tutorials (spec 13): logs that no product writes and that people still have."""

from __future__ import annotations

import datetime
import json
from typing import Any

from turnlake.format.values import Object, is_int

_HOISTED = ("turn", "step", "callId", "name", "reason", "message", "error", "usage", "arguments", "chunk")
_SURFACE = ("user/message", "assistant/message", "tool/result")
# The types in which data alone, or nothing but other members of the event, can show a trait.
MAY_HAVE_TRAIT = frozenset((*_SURFACE, "turn/end"))
_FOREIGN = ("tool_use", "tool_result")
_SOURCE_KINDS = {"user/message": "user", "assistant/message": "model", "tool/result": "tool"}


def has_trait(event: Object, has_odd_members: bool) -> bool:
    """True where an event shows what only the tutorials write (spec 13, the table)."""
    if has_odd_members and any(key in event for key in _HOISTED):
        return True
    kind, data = event["type"], event.get("data")
    if not isinstance(data, dict):
        return has_odd_members
    if kind not in _SURFACE:
        return kind == "turn/end" and isinstance(data.get("reason"), str)
    message = data if kind == "user/message" else data.get("message", data)
    if not isinstance(message, dict) or isinstance(message.get("content"), str):
        return True
    if kind == "user/message" and "id" not in message and message.get("role") == "user":
        return True
    if kind == "tool/result" and "toolName" in message:
        return True
    return _has_foreign_block(message)


def _has_foreign_block(message: Object) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    return any(type(block) is dict and block.get("type") in _FOREIGN for block in content)


def _block_type(block: Any) -> Any:
    return block.get("type") if isinstance(block, dict) else None


class Tutorial:
    """Normalises the events of one tutorial log in order; remembers calls, since results may not name theirs."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._calls: dict[int, tuple[str, str]] = {}
        self._open: list[tuple[str, str]] = []
        self.hoist_conflicts = 0

    def normalise(self, event: Object, seq: int, time: int | None) -> Object:
        """The event as a product would have written it in format v0. Never changes the one given."""
        kind = event["type"]
        data = self._hoisted(event)
        if isinstance(data.get("reason"), str):
            data["reason"] = {"kind": data["reason"]}
        out: Object = {"type": kind, "seq": seq, "time": time, "data": data}
        if kind == "tool/call":
            self._note_call(seq, data)
        if kind in _SURFACE:
            out["data"] = self._surface_data(kind, data, event, seq)
            out["surfaceOp"] = event.get("surfaceOp", "append")
        if isinstance(event.get("sourceEventSeqs"), list):
            out["sourceEventSeqs"] = event["sourceEventSeqs"]
        if event.get("ignorable") is True:
            out["ignorable"] = True
        return out

    def _hoisted(self, event: Object) -> Object:
        """The event's data, with members moved in that stand beside it; data wins where both have one."""
        data = dict(event["data"]) if isinstance(event.get("data"), dict) else {}
        for key in _HOISTED:
            if key in event and key not in data:
                data[key] = event[key]
            elif key in event and event[key] != data[key]:
                self.hoist_conflicts += 1
        return data

    def _note_call(self, seq: int, data: Object) -> None:
        call = (str(data.get("callId") or ""), str(data.get("name") or ""))
        self._calls[seq] = call
        self._open.append(call)

    def _surface_data(self, kind: str, data: Object, event: Object, seq: int) -> Object:
        own = data.get("message") if isinstance(data.get("message"), dict) else None
        message = dict(own if own is not None else data)
        message.setdefault("id", f"tutorial:{self._session}:{seq}")
        message.setdefault("source", {"kind": _SOURCE_KINDS[kind]})
        message["content"] = [_block(block) for block in _content(message.get("content"))]
        if kind == "user/message":
            return {"role": "user", **_without(message, ("turn", "step"))}
        if kind == "assistant/message":
            message = _without(message, ("turn", "step", "usage")) if own is None else message
            return {**_without(data, ("content",)), "message": {"role": "assistant", **message}}
        return {**_without(data, ("content",)), "message": self._tool_message(message, data, event)}

    def _tool_message(self, message: Object, data: Object, event: Object) -> Object:
        """A user message with one tool-result block, as formats v0 to v3 have it."""
        call_id = self._call_of(message, data, event)
        block: Object = {"type": "tool-result", "toolCallId": call_id, "content": message["content"]}
        if "isError" in message:
            block["isError"] = message["isError"]
        self._open = [call for call in self._open if call[0] != call_id]
        source = {"kind": "tool", "callId": call_id}
        return {"id": message["id"], "role": "user", "source": source, "content": [block]}

    def _call_of(self, message: Object, data: Object, event: Object) -> str:
        named = data.get("callId") or message.get("toolCallId")
        if isinstance(named, str):
            return named
        sources = event.get("sourceEventSeqs")
        for seq in sources if isinstance(sources, list) else ():
            if is_int(seq) and seq in self._calls:
                return self._calls[seq][0]
        name = message.get("toolName")
        return next((call_id for call_id, tool in reversed(self._open) if tool == name), "")


def _without(data: Object, keys: tuple[str, ...]) -> Object:
    return {key: value for key, value in data.items() if key not in keys}


def _content(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _block(block: Any) -> Any:
    """A content block with the hyphenated type and members of the real formats."""
    kind = _block_type(block)
    if kind == "tool_use":
        arguments = block.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps(block.get("input", {}), ensure_ascii=False, separators=(",", ":"))
        return {"type": "tool-call", "id": block.get("id", ""), "name": block.get("name", ""), "arguments": arguments}
    if kind == "tool_result":
        content = _content(block.get("content"))
        return {**block, "type": "tool-result", "toolCallId": block.get("tool_use_id", ""), "content": content}
    return block


def time_of(value: Any, before: int) -> int:
    """Unix ms of a time that may be a number or ISO text; `before` (the time of the event before) without one."""
    if is_int(value):
        return int(value)
    if isinstance(value, str):
        try:
            moment = datetime.datetime.fromisoformat(value)
        except ValueError:
            return before
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return int(moment.timestamp() * 1000)
    return before
