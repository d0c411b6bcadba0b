"""Calls that a tool makes by itself: nested dispatches, which the model never sees (INV-39)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlake.format.breach import Breach, warning
from turnlake.format.values import Object, digest_of, name_of

# `code` up to v2, `ptc` from v3 on.
STARTS = ("tool/code-dispatch-start", "tool/ptc-dispatch-start")
SETTLES = ("tool/code-dispatch", "tool/ptc-dispatch")

_AGREED = ("rootCallId", "parentCallId", "name", "arguments")


@dataclass
class _Sub:
    agreed: bytes
    is_settled: bool = False


class Dispatches:
    """The nested dispatches of one log, by the call at their root."""

    def __init__(self) -> None:
        self._roots: dict[str, dict[str, _Sub]] = {}

    def forget(self, call_id: object) -> None:
        """A tool/call with that id: ids come back, and what was dispatched under it belongs to an earlier call."""
        if self._roots:
            self._roots.pop(name_of(call_id), None)

    def start(self, data: Object, turn: int | None) -> Iterator[Breach]:
        """A dispatch begins; turn is the open one."""
        root, parent, sub = (name_of(data.get(key)) for key in ("rootCallId", "parentCallId", "subCallId"))
        subs = self._roots.setdefault(root, {})
        if sub in subs:
            yield warning("INV-39", f"the nested call {sub!r} starts twice")
        elif parent != root and parent not in subs:
            yield warning("INV-39", f"the parent of the nested call {sub!r} is no call of the same root")
        elif turn is None:
            yield warning("INV-39", f"the nested call {sub!r} starts outside a turn")
        subs.setdefault(sub, _Sub(_agreed(data)))

    def settle(self, data: Object, turn: int | None) -> Iterator[Breach]:
        """A dispatch ends; turn is the open one."""
        root, name = name_of(data.get("rootCallId")), name_of(data.get("subCallId"))
        sub = self._roots.get(root, {}).get(name)
        if sub is None:
            yield warning("INV-39", f"the nested call {name!r} settles without a start under its root")
            return
        if sub.is_settled:
            yield warning("INV-39", f"the nested call {name!r} settles twice")
        elif sub.agreed != _agreed(data):
            yield warning("INV-39", f"start and end of the nested call {name!r} differ in parent, name or arguments")
        elif turn is None:
            yield warning("INV-39", f"the nested call {name!r} settles outside a turn")
        sub.is_settled = True


def _agreed(data: Object) -> bytes:
    """A digest of what start and end of a dispatch have in common."""
    return digest_of({key: data.get(key) for key in _AGREED})
