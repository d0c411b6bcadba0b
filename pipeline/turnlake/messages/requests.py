"""What a request carried beside its messages: header and context, folded (spec section 10.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from turnlake.format.values import Object
from turnlake.messages.frozen import Frozen, freeze

# What a request was built from; early logs carry other members, which no harness kept.
MEMBERS = ("config", "adapterDefaults", "system", "tools")


def fold_request_header(events: Iterable[Object]) -> Frozen | None:
    """The request header in force after the events: the last one, in canonical form; None without any.

    Each header is a whole: nothing is carried over from the one before. Members that say nothing (adapter
    defaults without a flag that is true, an empty system prompt, an empty list of tools) are left out, and so are
    members that no header has.
    """
    data = _last(events, "request/header")
    header = data.get("header") if data is not None else None
    return canonical_header(header) if isinstance(header, dict) else None


def fold_request_context(events: Iterable[Object]) -> Frozen | None:
    """The last `request/context` whole; None without any. What it does not name is unknown, whatever stood before."""
    data = _last(events, "request/context")
    frozen: Frozen | None = freeze(data)
    return frozen


def _last(events: Iterable[Object], kind: str) -> Object | None:
    last = None
    for event in events:
        if event["type"] == kind and isinstance(event.get("data"), dict):
            last = event["data"]
    return last


def canonical_header(header: Object) -> Frozen:
    """A request header in canonical form: without members that say nothing, or that no header has."""
    kept = (key for key in MEMBERS if key in header and _says_something(key, header[key]))
    frozen: Frozen = freeze({key: header[key] for key in kept})
    return frozen


def _says_something(key: str, value: Any) -> bool:
    if key == "adapterDefaults":
        return isinstance(value, dict) and any(flag is True for flag in value.values())
    return bool(value) if key in ("system", "tools") else True
