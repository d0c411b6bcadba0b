"""What each format version demands of one event by itself (spec sections 2.3, 5 and the notes of 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from turnlake.events.sources import Ranges, source_faults
from turnlake.events.values import Object, is_count, is_int, is_text
from turnlake.events.vocabulary import SURFACE_TYPES

KEYS = frozenset(("type", "seq", "time", "data", "ignorable", "surfaceOp", "sourceEventSeqs"))
REQUIRED = frozenset(("type", "seq", "time", "data"))
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
    if missing := REQUIRED - event.keys():
        yield Fault("INV-03", f"without {sorted(missing)[0]}", is_tail)
    if unexpected := event.keys() - KEYS:
        yield Fault("INV-03", f"with the unexpected member {sorted(unexpected)[0]!r}", is_tail)
    if not is_int(event.get("time")):
        yield Fault("INV-03", "with a time that is no safe integer", is_tail)
    if event.get("ignorable", True) is not True:
        yield Fault("INV-03", "with an ignorable that is not true", is_tail)
    data = event.get("data")
    if not isinstance(data, dict) and not (data is None and version == 0 and event["type"] not in SURFACE_TYPES[0]):
        yield Fault("INV-03", "with data that is no object", is_tail)


def surface_faults(event: Object, sources: Ranges | None, version: int, is_known: bool) -> Iterator[Fault]:
    """Faults of surfaceOp and sourceEventSeqs (INV-05, INV-07); sources as decoded."""
    is_tail = version >= 3
    kind, op = event["type"], event.get("surfaceOp")
    if kind not in SURFACE_TYPES[version]:
        if ("surfaceOp" in event or "sourceEventSeqs" in event) and not (version >= 3 and not is_known):
            yield Fault("INV-05", "log-only event with surfaceOp or sourceEventSeqs", is_tail)
        return
    if op != "append" and not _is_replace(op, version):
        yield Fault("INV-05", "surface event without a legal surfaceOp", is_tail)
    if sources is None:
        return
    if kind == "assistant/message" and version >= 2:
        yield Fault("INV-26", "assistant/message with sourceEventSeqs", is_tail)
    if not sources and not (kind == "assistant/message" and version < 2):
        yield Fault("INV-07", "sourceEventSeqs is empty", is_tail)
    for fault in source_faults(sources, event["seq"]):
        yield Fault("INV-07", f"sourceEventSeqs {fault}", is_tail)


def _is_replace(op: Any, version: int) -> bool:
    if not isinstance(op, dict) or op.get("op") != "replace":
        return False
    keys = _REPLACE_KEYS[version >= 3]
    return op.keys() == keys and all(is_count(op[key]) for key in keys - {"op"})


def payload_faults(event: Object, version: int) -> Iterator[Fault]:
    """Faults of a few payloads that the harness checks whatever else it does (spec 2.3, 6.4)."""
    kind, data = event["type"], event.get("data")
    if not isinstance(data, dict):
        return
    if kind == "turn/end" and version < 2 and not _is_turn_end(data):
        yield Fault("INV-03", "turn/end without turn or reason", False)
    if kind == "request/header" and version >= 3 and isinstance(data.get("header"), dict):
        header = data["header"]
        if "system" in header:
            yield Fault("INV-31", "request/header with a system prompt", False, "retired_syntax")
        if header.get("tools") == [] or header.get("adapterDefaults") == {}:
            yield Fault("INV-31", "request/header with empty tools or adapterDefaults", True)
    if kind in ("assistant/message", "assistant/attempt") and version >= 2 and "stream" not in data:
        yield Fault("INV-26", f"{kind} without a stream", False)


def _is_turn_end(data: Object) -> bool:
    reason = data.get("reason")
    return is_int(data.get("turn")) and isinstance(reason, dict) and is_text(reason.get("kind"))
