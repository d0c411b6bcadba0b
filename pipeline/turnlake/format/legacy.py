"""Older event shapes inside v0 logs, made into the shapes of today (spec 6.5 and 7.1).

The same table is applied to a file that says version 1, where the shapes are illegal.
"""

from __future__ import annotations

from turnlake.format.values import Object

# Types whose older shape differs; anything else passes untouched.
RENAMED = {
    "steering/message": "user/message",
    "compact/start": "compaction/start",
    "compact/summary": "compaction/summary",
    "compact/end": "compaction/end",
    "compact/prune": "compaction/prune",
}
MAY_BE_OLD = frozenset(
    (*RENAMED, "user/message", "assistant/message", "tool/result", "turn/start", "turn/end", "llm/retry")
)
# Start of the ids given to retries that have none: each has its own, so they say nothing of what belongs together.
RETRY_ID = "legacy-retry:"
UNSUPPORTED = frozenset(("request/header-delta", "mode/set"))

_MODEL_MESSAGE_KEYS = ("content", "provenance")
_RESULT_KEYS = ("callId", "content", "isError")


class Legacy:
    """Normalises the events of one log in order; remembers the open compaction that lacks an id."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._compaction_id: str | None = None

    def normalise(self, event: Object) -> Object | None:
        """The event in today's shape, or None where it has that already. Never changes the one given."""
        data = event.get("data")
        if not isinstance(data, dict):
            return None
        written: str = event["type"]
        kind = RENAMED.get(written, written)
        new = self._data(kind, data, event)
        if new is None and kind == written:
            return None
        return event | {"type": kind, "data": data if new is None else new}

    def _data(self, kind: str, data: Object, event: Object) -> Object | None:
        if kind == "user/message":
            return self._user_message(data, event["seq"], is_wrapped=event["type"] == "steering/message")
        if kind == "assistant/message" and "message" not in data and "content" in data:
            return self._assistant_message(data, event["seq"])
        if kind == "tool/result" and "message" not in data and "callId" in data:
            return self._tool_result(data, event["seq"])
        if kind == "turn/start" and "trigger" in data:
            return {key: value for key, value in data.items() if key != "trigger"}
        if kind == "turn/end":
            return _turn_end(data)
        if kind == "llm/retry" and "retryId" not in data:
            return {"retryId": f"{RETRY_ID}{self._session_id}:{event['seq']}", **data}
        if kind.startswith("compaction/") and "compactionId" not in data:
            return {"compactionId": self._compaction(kind, event["seq"]), **data}
        return None

    def _message_id(self, seq: int) -> str:
        return f"legacy-message:{self._session_id}:{seq}"

    def _user_message(self, data: Object, seq: int, *, is_wrapped: bool) -> Object | None:
        """Unwraps a steering message; gives id and role to a message that has neither."""
        message = data.get("message")
        if is_wrapped and isinstance(message, dict) and "content" not in data:
            return dict(message)
        if "content" not in data or "id" in data or "role" in data:
            return None
        kept = {key: value for key, value in data.items() if key != "turn"}
        return {"id": self._message_id(seq), "role": "user", **kept}

    def _assistant_message(self, data: Object, seq: int) -> Object:
        provenance = data.get("provenance")
        source = {"kind": "model", **(provenance if isinstance(provenance, dict) else {})}
        message = {"id": self._message_id(seq), "role": "assistant", "content": data["content"], "source": source}
        return {**_without(data, _MODEL_MESSAGE_KEYS), "message": message}

    def _tool_result(self, data: Object, seq: int) -> Object:
        call_id = data["callId"]
        block = {"type": "tool-result", "toolCallId": call_id, "content": data.get("content")}
        if "isError" in data:
            block["isError"] = data["isError"]
        message = {
            "id": self._message_id(seq),
            "role": "user",
            "source": {"kind": "tool", "callId": call_id},
            "content": [block],
        }
        return {**_without(data, _RESULT_KEYS), "message": message}

    def _compaction(self, kind: str, seq: int) -> str:
        """One id for all events of a compaction: that of its start."""
        if kind == "compaction/start" or self._compaction_id is None:
            self._compaction_id = f"legacy-compaction:{self._session_id}:{seq}"
        return self._compaction_id


def _without(data: Object, keys: tuple[str, ...]) -> Object:
    return {key: value for key, value in data.items() if key not in keys}


def _turn_end(data: Object) -> Object | None:
    """The older reasons of a turn's end in today's shape; None for one that is not old."""
    reason = data.get("reason")
    if not isinstance(reason, dict):
        return None
    new: Object
    if reason == {"kind": "aborted"}:
        new = {"kind": "aborted", "reason": {"kind": "legacy"}}
    elif reason.get("kind") == "disposed":
        new = {"kind": "aborted", "reason": {"kind": "disposed"}}
    elif reason.get("kind") == "error" and "error" not in reason and isinstance(reason.get("failure"), dict):
        new = {"kind": "error", "error": reason["failure"]}
    elif reason.get("kind") == "error" and "error" not in reason and "message" in reason:
        new = {"kind": "error", "error": {"message": reason["message"], "code": reason.get("code") or "UNKNOWN"}}
    else:
        return None
    return {**data, "reason": new}
