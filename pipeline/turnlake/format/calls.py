"""The tool calls of a step: advertised by a message, started, resolved (INV-17 to INV-24)."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from typing import Any

from turnlake.findings import Severity
from turnlake.format.breach import Breach
from turnlake.format.sources import Ranges
from turnlake.format.values import Object

# SHA-256 of the fixed texts of synthetic results for calls that never started (spec 2.4).
# Start of the message's id, first format version that has it, digest.
NOT_STARTED = (
    ("interrupted-tool-result-", 0, "613f8e88c4324029a758e388a77c9082e93d36d39ad23d5f76c5529fe7b0b42f"),
    ("forked-tool-result-", 4, "c11f77294d1c5da06c123f963e28ac20b6db83808d6da4908ca9aee695046eea"),
)


class Calls:
    """Tool calls of the current step: advertised, started, resolved."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._advertised: dict[str, list[tuple[Any, Any]]] = {}
        self._started: dict[str, int] = {}

    def clear(self) -> None:
        """A step begins or ends."""
        self._advertised, self._started = {}, {}

    def unresolved(self) -> list[str]:
        """Ids of calls that started and have no result."""
        return list(self._started)

    def advertise(self, message: Object) -> None:
        """The tool-call blocks of an assistant message."""
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool-call":
                call = (block.get("name"), block.get("arguments"))
                self._advertised.setdefault(str(block.get("id")), []).append(call)

    def start(self, seq: int, data: Object) -> Iterator[Breach]:
        """A tool/call event."""
        call_id = str(data.get("callId"))
        if (data.get("name"), data.get("arguments")) not in self._advertised.get(call_id, []):
            yield Breach("INV-17", "warning", f"call {call_id!r} matches no block of the step's messages")
        if call_id in self._started:
            yield Breach("INV-19", "warning", f"call id {call_id!r} is used by two open calls")
        self._started[call_id] = seq

    def result(self, event: Object, message: Object, sources: Ranges | None) -> Iterator[Breach]:
        """A tool/result event with a message that has an id."""
        call_id, is_error = yield from self._shape(message)
        if event["data"].get("error") is not None and is_error is not True:
            severity: Severity = "error" if self._version >= 3 else "warning"
            yield Breach("INV-23", severity, "a tool result with an error is not marked isError")
        if event.get("surfaceOp") != "append":
            return
        call_seq = self._started.pop(str(call_id), None)
        if call_seq is None:
            is_closer = is_error is True and self._is_not_started(event, message, sources)
            if not self._advertised.pop(str(call_id), None) or not is_closer:
                yield Breach("INV-18", "error", f"result of call {call_id!r}, which is not open in the step")
        elif sources is not None and sources != [call_seq, call_seq]:
            yield Breach("INV-20", "warning", f"the result of call {call_id!r} cites another event")

    def _shape(self, message: Object) -> Generator[Breach, None, tuple[Any, Any]]:
        content, source = message.get("content"), message.get("source")
        block: Any = message
        if self._version < 4:
            is_single = isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict)
            if not is_single or content[0].get("type") != "tool-result":  # type: ignore[index]
                yield Breach("INV-24", "error", "tool result without exactly one tool-result block", "invalid_payload")
                return None, None
            block = content[0]  # type: ignore[index]
        call_id = block.get("toolCallId")
        if not isinstance(source, dict) or source.get("callId") != call_id:
            yield Breach("INV-22", "error", "tool result whose call ids differ", "invalid_payload")
        return call_id, block.get("isError")

    def _is_not_started(self, event: Object, message: Object, sources: Ranges | None) -> bool:
        """An exact closer for a call that was advertised and never started (spec 2.4)."""
        error, content = event["data"].get("error"), message.get("content")
        if not isinstance(error, dict) or sources is not None:
            return False
        if (error.get("name"), error.get("code")) != ("ToolNotStartedError", "TOOL_NOT_STARTED"):
            return False
        parts = content if self._version >= 4 else content[0].get("content")  # type: ignore[index]
        is_text_part = isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict)
        text = parts[0].get("text") if is_text_part else None  # type: ignore[index]
        digest = hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()
        return any(
            message["id"].startswith(prefix) and digest == expected and self._version >= version
            for prefix, version, expected in NOT_STARTED
        )
