"""Messages and the surface they stand on (spec 9.1, 10.1, 10.4: INV-03, INV-06, INV-08, INV-09, INV-16, INV-24, INV-32,
INV-33, INV-50)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import Any

from turnlake.format.records import EventLine
from turnlake.format.rules import calls, chunks, compactions
from turnlake.format.rules.state import LogState
from turnlake.format.source_seqs import Ranges, pairs
from turnlake.format.types import role_of
from turnlake.format.values import Object, digest_of, is_count, is_text, name_of


def see_message(state: LogState, record: EventLine, data: Object) -> None:
    """An event that owns a message: its identity, what belongs to its type, its place on the surface."""
    kind: str = record.event["type"]
    message = data if kind == "user/message" else data.get("message")
    if isinstance(message, dict) and is_text(message.get("id")):
        _see_identity(state, record, message)
        if kind == "assistant/message":
            calls.advertise(state, message)
            if state.version < 2:
                chunks.settle(state, record)
        elif kind == "user/message":
            _see_prompt(state, record.event["seq"], message)
        elif kind == "tool/result":
            calls.resolve(state, record, message)
        elif kind == "developer/message":
            _see_additions(state, data, message)
    else:
        state.error("INV-03", f"{kind} without an identified message", "invalid_payload")
    _fold(state, record, data)


def _see_identity(state: LogState, record: EventLine, message: Object) -> None:
    """No other message has its id, and its role is that of its event's type."""
    event = record.event
    kind = event["type"]
    if kind != "tool/result" or event.get("surfaceOp") == "append":
        name = name_of(message["id"])
        if name in state.message_ids:
            state.warn("INV-50", f"another message has the id {name!r}")
        state.message_ids.add(name)
    if message.get("role") != role_of(kind, state.version):
        state.error("INV-24", f"{kind} with a message of role {message.get('role')!r}", "invalid_payload")


def _see_prompt(state: LogState, seq: int, message: Object) -> None:
    source = message.get("source")
    if isinstance(source, dict) and source.get("kind") == "user":
        state.prompts.add(seq)
        if state.open_step is None:
            state.count("INV-16", "advisory", "a message of a human stands outside a step")


def _see_additions(state: LogState, data: Object, message: Object) -> None:
    """headerSeq of a developer message: there exactly with additions, and it defines each added tool once."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    added = [str(block.get("toolName")) for block in blocks if block.get("type") == "tool-addition"]
    header_seq = data.get("headerSeq")
    defined = state.header_tools.get(header_seq, Counter()) if is_count(header_seq) else Counter()
    if bool(added) != ("headerSeq" in data) or any(defined[name] != 1 for name in added):
        state.error("INV-33", "the header it names does not define each added tool exactly once")


def _fold(state: LogState, record: EventLine, data: Object) -> None:
    """One step of the surface fold."""
    event = record.event
    kind, seq, op = event["type"], event["seq"], event.get("surfaceOp")
    is_system = kind == "system/message"
    if op == "append":
        if is_system:
            if not state.has_head and state.surface:
                state.error("INV-32", "a surface node stands before the first system/message")
            state.has_head = state.has_head or not state.surface
        state.surface.append(seq)
    elif isinstance(op, dict):
        first, last = compactions.replaced_range(op, state.version)
        span = span_of(state.surface, first, last)
        if span is None:
            state.error("INV-06", f"replaces {first} to {last}, which is no range of the surface")
            state.surface.append(seq)
            return
        _replace(state, record, data, span, is_system)
    if kind == "tool/result":
        state.results[seq] = _all_but_content(data, state.version)


def span_of(surface: list[int], first: Any, last: Any) -> slice | None:
    """Where the nodes first to last stand on the surface; None where they are no range of it."""
    try:
        start = surface.index(first)
        return slice(start, surface.index(last, start) + 1)
    except ValueError:
        return None


def _replace(state: LogState, record: EventLine, data: Object, span: slice, is_system: bool) -> None:
    shadowed = state.surface[span]
    if not _cites_all(record.sources or [], shadowed):
        state.error("INV-08", "does not cite every event it replaces")
    compactions.see_checkpoint(state, data, shadowed)
    if record.event["type"] == "tool/result":
        before = state.results.get(shadowed[0])
        if len(shadowed) != 1 or before != _all_but_content(data, state.version):
            state.error("INV-09", "a tool result is replaced by more than other content")
    if state.has_head and span.start == 0 and (len(shadowed) != 1 or not is_system):
        state.error("INV-32", "replaces the system message at the head")
    state.surface[span] = [record.event["seq"]]


def _cites_all(sources: Ranges, shadowed: list[int]) -> bool:
    runs = sorted(pairs(sources))
    firsts = [first for first, _ in runs]
    places = ((seq, bisect_right(firsts, seq) - 1) for seq in shadowed)
    return all(place >= 0 and seq <= runs[place][1] for seq, place in places)


def _all_but_content(data: Object, version: int) -> bytes:
    """A digest of a tool result's data with the result's content left out."""
    message = data.get("message")
    if not isinstance(message, dict):
        return b""
    message = dict(message)
    if version >= 4:
        message["content"] = None
    elif isinstance(message.get("content"), list):
        message["content"] = [block | {"content": None} for block in message["content"] if isinstance(block, dict)]
    return digest_of(data | {"message": message})
