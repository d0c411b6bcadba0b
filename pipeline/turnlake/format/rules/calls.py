"""Tool calls: advertised by a message, started, resolved (INV-17 to INV-24); and calls that a tool makes (INV-39)."""

from __future__ import annotations

import hashlib
from typing import Any

from turnlake.findings import Severity
from turnlake.format.records import EventLine
from turnlake.format.rules.state import Breach, LogState, Nested, rule
from turnlake.format.source_seqs import Ranges
from turnlake.format.values import Object, digest_of, name_of

# SHA-256 of the fixed texts of synthetic results for calls that never started (spec 2.4).
# Start of the message's id, first format version that has it, digest.
NOT_STARTED = (
    ("interrupted-tool-result-", 0, "613f8e88c4324029a758e388a77c9082e93d36d39ad23d5f76c5529fe7b0b42f"),
    ("forked-tool-result-", 4, "c11f77294d1c5da06c123f963e28ac20b6db83808d6da4908ca9aee695046eea"),
)


def advertise(state: LogState, message: Object) -> None:
    """The tool-call blocks of an assistant message."""
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool-call":
            call = (block.get("name"), block.get("arguments"))
            state.advertised.setdefault(str(block.get("id")), []).append(call)


@rule("tool/call")
def tool_call(state: LogState, record: EventLine, data: Object) -> None:
    """A call starts that a message of the step advertised, under an id that no open call has."""
    if state.nested:
        # Ids come back, and what was dispatched under this one belongs to an earlier call.
        state.nested.pop(name_of(data.get("callId")), None)
    call_id = str(data.get("callId"))
    if (data.get("name"), data.get("arguments")) not in state.advertised.get(call_id, ()):
        state.warn("INV-17", f"call {call_id!r} matches no block of the step's messages")
    if call_id in state.started:
        state.warn("INV-19", f"call id {call_id!r} is used by two open calls")
    state.started[call_id] = record.event["seq"]


def resolve(state: LogState, record: EventLine, message: Object) -> None:
    """A tool result with a message that has an id: it resolves a call that is open in the step."""
    event, sources = record.event, record.sources
    call_id, is_error = _shape(state, message)
    if event["data"].get("error") is not None and is_error is not True:
        severity: Severity = "error" if state.version >= 3 else "warning"
        state.breaches.append(Breach("INV-23", severity, "a tool result with an error is not marked isError"))
    if event.get("surfaceOp") != "append":
        return
    call_seq = state.started.pop(str(call_id), None)
    if call_seq is None:
        is_closer = is_error is True and _is_not_started(state, event, message, sources)
        if not state.advertised.pop(str(call_id), None) or not is_closer:
            state.error("INV-18", f"result of call {call_id!r}, which is not open in the step")
    elif sources is not None and sources != [call_seq, call_seq]:
        state.warn("INV-20", f"the result of call {call_id!r} cites another event")


def _shape(state: LogState, message: Object) -> tuple[Any, Any]:
    """Call id and isError of a result's message."""
    content, source = message.get("content"), message.get("source")
    block: Any = message
    if state.version < 4:
        is_single = isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict)
        if not is_single or content[0].get("type") != "tool-result":  # type: ignore[index]
            state.error("INV-24", "tool result without exactly one tool-result block", "invalid_payload")
            return None, None
        block = content[0]  # type: ignore[index]
    call_id = block.get("toolCallId")
    if not isinstance(source, dict) or source.get("callId") != call_id:
        state.error("INV-22", "tool result whose call ids differ", "invalid_payload")
    return call_id, block.get("isError")


def _is_not_started(state: LogState, event: Object, message: Object, sources: Ranges | None) -> bool:
    """An exact closer for a call that was advertised and never started (spec 2.4)."""
    error, content = event["data"].get("error"), message.get("content")
    if not isinstance(error, dict) or sources is not None:
        return False
    if (error.get("name"), error.get("code")) != ("ToolNotStartedError", "TOOL_NOT_STARTED"):
        return False
    parts = content if state.version >= 4 else content[0].get("content")  # type: ignore[index]
    is_text_part = isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict)
    text = parts[0].get("text") if is_text_part else None  # type: ignore[index]
    digest = hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()
    return any(
        message["id"].startswith(prefix) and digest == expected and state.version >= version
        for prefix, version, expected in NOT_STARTED
    )


# `code` up to v2, `ptc` from v3 on.
@rule("tool/code-dispatch-start", "tool/ptc-dispatch-start")
def dispatch_start(state: LogState, record: EventLine, data: Object) -> None:
    """A nested call begins, in a turn, below a call of the same root."""
    root, parent, sub = (name_of(data.get(key)) for key in ("rootCallId", "parentCallId", "subCallId"))
    subs = state.nested.setdefault(root, {})
    if sub in subs:
        state.warn("INV-39", f"the nested call {sub!r} starts twice")
    elif parent != root and parent not in subs:
        state.warn("INV-39", f"the parent of the nested call {sub!r} is no call of the same root")
    elif state.open_turn is None:
        state.warn("INV-39", f"the nested call {sub!r} starts outside a turn")
    subs.setdefault(sub, Nested(_agreed(data)))


@rule("tool/code-dispatch", "tool/ptc-dispatch")
def dispatch(state: LogState, record: EventLine, data: Object) -> None:
    """A nested call ends, once, and as it began."""
    root, name = name_of(data.get("rootCallId")), name_of(data.get("subCallId"))
    sub = state.nested.get(root, {}).get(name)
    if sub is None:
        state.warn("INV-39", f"the nested call {name!r} settles without a start under its root")
        return
    if sub.is_settled:
        state.warn("INV-39", f"the nested call {name!r} settles twice")
    elif sub.agreed != _agreed(data):
        state.warn("INV-39", f"start and end of the nested call {name!r} differ in parent, name or arguments")
    elif state.open_turn is None:
        state.warn("INV-39", f"the nested call {name!r} settles outside a turn")
    sub.is_settled = True


def _agreed(data: Object) -> bytes:
    """A digest of what start and end of a dispatch have in common."""
    return digest_of({key: data.get(key) for key in ("rootCallId", "parentCallId", "name", "arguments")})
