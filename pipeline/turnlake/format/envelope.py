"""What each format version demands of one event by itself (spec sections 2.3, 5 and the notes of 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from turnlake.format.source_seqs import Ranges, source_faults
from turnlake.format.types import MESSAGE_TYPES
from turnlake.format.values import Object, is_count, is_int, is_text

KEYS = frozenset(("type", "seq", "time", "data", "ignorable", "surfaceOp", "sourceEventSeqs"))
REQUIRED = frozenset(("type", "seq", "time", "data"))
# What v3 calls by another name.
_RENAMED = ("tool/code-dispatch", "tool/code-dispatch-start")
_REPLACE_KEYS = ({"op", "start", "end"}, {"op", "startSeq", "endSeq"})


class Fault(NamedTuple):
    """What an event breaks. `is_tail`: such a record may be cut off as a tail instead of refusing the log."""

    id: str
    detail: str
    is_tail: bool
    reason: str = "invalid_event"


def envelope_faults(event: Object, version: int) -> Iterator[Fault]:
    """Faults of the members every event has."""
    is_tail = version >= 2
    if "/" not in event["type"]:
        yield Fault("INV-03", "with a type that has no slash", is_tail)
    if missing := REQUIRED - event.keys():
        yield Fault("INV-03", f"without {sorted(missing)[0]}", is_tail)
    if unexpected := event.keys() - KEYS:
        yield Fault("INV-03", f"with the unexpected member {sorted(unexpected)[0]!r}", is_tail)
    if not is_int(event.get("time")):
        yield Fault("INV-03", "with a time that is no safe integer", is_tail)
    if event.get("ignorable", True) is not True:
        yield Fault("INV-03", "with an ignorable that is not true", is_tail)
    data = event.get("data")
    if not isinstance(data, dict) and not (data is None and version == 0 and event["type"] not in MESSAGE_TYPES[0]):
        yield Fault("INV-03", "with data that is no object", is_tail)


def surface_faults(event: Object, sources: Ranges | None, version: int, is_known: bool) -> Iterator[Fault]:
    """Faults of surfaceOp and sourceEventSeqs (INV-05, INV-07); sources as decoded."""
    is_tail = version >= 3
    kind, op = event["type"], event.get("surfaceOp")
    if kind not in MESSAGE_TYPES[version]:
        if ("surfaceOp" in event or "sourceEventSeqs" in event) and not (version >= 3 and not is_known):
            yield Fault("INV-05", "log-only event with surfaceOp or sourceEventSeqs", is_tail)
        return
    if op != "append" and not is_replace(op, version):
        yield Fault("INV-05", "surface event without a legal surfaceOp", is_tail)
    if sources is None:
        return
    if kind == "assistant/message" and version >= 2:
        yield Fault("INV-26", "assistant/message with sourceEventSeqs", is_tail)
    if not sources and not (kind == "assistant/message" and version < 2):
        yield Fault("INV-07", "sourceEventSeqs is empty", is_tail)
    for fault in source_faults(sources, event["seq"]):
        yield Fault("INV-07", f"sourceEventSeqs {fault}", is_tail)


def is_replace(op: Any, version: int) -> bool:
    """Whether op is a replace operation of that version."""
    if not isinstance(op, dict) or op.get("op") != "replace":
        return False
    keys = _REPLACE_KEYS[version >= 3]
    return op.keys() == keys and all(is_count(op[key]) for key in keys - {"op"})


def payload_faults(event: Object, version: int) -> list[Fault]:
    """Faults of the few payloads that the harness looks at by themselves."""
    faults = faults_anywhere(event, version)
    kind, data = event["type"], event.get("data")
    if not isinstance(data, dict):
        return faults
    if kind == "request/header":
        header = data.get("header")
        says_nothing = isinstance(header, dict) and (header.get("tools") == [] or header.get("adapterDefaults") == {})
        if version >= 3 and says_nothing:
            faults.append(Fault("INV-31", "with empty tools or adapterDefaults", True))
    elif version >= 2 and kind in ("assistant/message", "assistant/attempt") and "stream" not in data:
        faults.append(Fault("INV-26", "without a stream", False))
    return faults


def faults_anywhere(event: Object, version: int) -> list[Fault]:
    """What refuses the log wherever it stands, in a tail too (spec 2.3)."""
    faults: list[Fault] = []
    kind, data = event["type"], event.get("data")
    if kind == "turn/end":
        if version < 2 and not _is_turn_end(data):
            faults.append(Fault("INV-03", "without turn or reason", False))
    elif version >= 4 and kind in MESSAGE_TYPES[4]:
        message = data if kind == "user/message" or not isinstance(data, dict) else data.get("message")
        if isinstance(message, dict):
            _note_retired(faults, message)
    elif kind == "request/header" and isinstance(data, dict):
        _note_header(faults, data, version)
    elif version >= 3 and kind in _RENAMED and "ignorable" not in event:
        faults.append(Fault("INV-04", "of a type that v3 has renamed", False, "retired_syntax"))
    return faults


def _note_header(faults: list[Fault], data: Object, version: int) -> None:
    header = data.get("header")
    config = header.get("config") if isinstance(header, dict) else None
    if not isinstance(config, dict) or not is_text(config.get("provider")) or not is_text(config.get("model")):
        faults.append(Fault("INV-03", "without provider or model", False, "invalid_payload"))
    if version < 2 and data.get("reason") == "fallback":
        faults.append(Fault("INV-29", "with reason fallback", False, "unsupported_legacy"))
    if version >= 3 and isinstance(header, dict) and "system" in header:
        faults.append(Fault("INV-31", "with a system prompt", False, "retired_syntax"))


def _note_retired(faults: list[Fault], message: Object) -> None:
    source, content = message.get("source"), message.get("content")
    if isinstance(source, dict) and source.get("kind") == "plugin":
        faults.append(Fault("INV-45", "with a message source of kind plugin", False, "retired_syntax"))
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool-result":
            faults.append(Fault("INV-24", "with a tool-result block", False, "retired_syntax"))
            return


def _is_turn_end(data: Any) -> bool:
    if not isinstance(data, dict) or not is_int(data.get("turn")):
        return False
    reason = data.get("reason")
    return isinstance(reason, dict) and is_text(reason.get("kind"))
