"""The state machine over one log's accepted events: brackets, surface, calls (spec sections 5, 10 and 11).

`check` gets every event in order and returns what it breaks. A breach of severity `error` is one for which
the harness refuses the log in that format version; the others only deserve a finding.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from turnlake.events.breach import Breach
from turnlake.events.calls import Calls
from turnlake.events.runs import Run
from turnlake.events.slots import Slots
from turnlake.events.sources import Ranges, pairs
from turnlake.events.values import Object, is_count, is_text
from turnlake.events.vocabulary import MESSAGE_ROLES, SURFACE_TYPES, tool_result_role
from turnlake.findings import Severity

STEP_SCOPED = frozenset(
    ("assistant/message", "assistant/attempt", "system/message", "developer/message", "tool/call", "tool/result")
)


class Invariants:
    """The state of one log after the events checked so far."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.surface: list[int] = []
        self._surface_types = SURFACE_TYPES[version]
        self._open_turn: int | None = None
        self._open_step: int | None = None
        self._last_turn = 0
        self._last_step = 0
        self._may_reopen = False
        self._calls = Calls(version)
        self._slots = Slots()
        self._results: dict[int, bytes] = {}
        self._has_head = False
        # How often each request header, by seq, defines each tool (v4).
        self._tools: dict[int, Counter[str]] = {}
        # The range that each open compaction says it shadows, by its id.
        self._shadowed: dict[str, Any] = {}

    def note_chunks(self, seq: int, run: Run, count: int) -> Breach | None:
        """What a run of count chunks of v0 or v1 breaks whose first chunk has that seq."""
        self._may_reopen = False
        self._slots.add(seq, run, count)
        if run.turn != self._open_turn or run.step != self._open_step:
            return Breach("INV-14", "warning", f"chunks of turn {run.turn}, step {run.step} outside that step")
        return None

    def check(self, event: Object, sources: Ranges | None) -> Iterator[Breach]:
        """What the event breaks; sources are its decoded sourceEventSeqs."""
        kind, data = event["type"], event.get("data")
        if isinstance(data, dict):
            if kind in STEP_SCOPED:
                yield from self._in_step(kind, data, event.get("surfaceOp"))
            bracket = _BRACKETS.get(kind)
            if bracket is not None:
                yield from bracket(self, data)
            elif kind == "tool/call":
                yield from self._calls.start(event["seq"], data)
            elif kind == "request/header":
                yield from self._request_header(event["seq"], data)
            elif kind == "compaction/summary":
                self._shadowed[str(data.get("compactionId"))] = data.get("shadowedSeqs")
        if kind in self._surface_types and isinstance(data, dict):
            yield from self._message(kind, event, sources)
            yield from self._fold(kind, event, sources)
        self._may_reopen = kind == "agent/inbox/spliced" and _claims_next_turn(data)

    def _in_step(self, kind: str, data: Object, op: Any) -> Iterator[Breach]:
        if kind == "tool/result" and op != "append":
            if self._open_turn is None:
                yield Breach("INV-15", "warning", "a tool result is replaced outside a turn")
        elif not self._is_open(data):
            where = f"turn {data.get('turn')}, step {data.get('step')}"
            yield Breach("INV-14", "error", f"{kind} names {where}, open is {self._open_turn}, {self._open_step}")

    def _is_open(self, data: Object) -> bool:
        """Whether data names the open turn and step; true and 1 are not the same."""
        turn, step = data.get("turn"), data.get("step")
        return is_count(turn) and is_count(step) and turn == self._open_turn and step == self._open_step

    def _turn_start(self, data: Object) -> Iterator[Breach]:
        turn = data.get("turn")
        if self._open_turn is not None and not (self.version < 2 and self._may_reopen and self._open_step is None):
            yield Breach("INV-10", "error", f"turn {turn} starts while turn {self._open_turn} is open")
        elif self._open_turn is not None:
            yield Breach("INV-10", "advisory", f"turn {self._open_turn} has no end; turn {turn} was claimed after it")
        if not is_count(turn) or turn != self._last_turn + 1:
            yield Breach("INV-11", "error", f"turn {turn} follows turn {self._last_turn}")
        self._open_turn = self._last_turn = int(turn) if is_count(turn) else self._last_turn + 1
        self._open_step, self._last_step = None, 0
        self._leave_step()

    def _turn_end(self, data: Object) -> Iterator[Breach]:
        if self._open_step is not None:
            yield Breach("INV-13", "error", f"turn {data.get('turn')} ends while step {self._open_step} is open")
        if self._open_turn is None or not is_count(data.get("turn")) or data["turn"] != self._open_turn:
            yield Breach("INV-10", "error", f"turn {data.get('turn')} ends, open is {self._open_turn}")
        self._open_turn = self._open_step = None
        self._leave_step()

    def _step_start(self, data: Object) -> Iterator[Breach]:
        turn, step = data.get("turn"), data.get("step")
        if turn != self._open_turn or self._open_turn is None or self._open_step is not None:
            here = f"{self._open_turn}, {self._open_step}"
            yield Breach("INV-12", "error", f"step {step} of turn {turn} starts, open is {here}")
        if not is_count(step) or step != self._last_step + 1:
            yield Breach("INV-12", "error", f"step {step} follows step {self._last_step}")
        self._open_step = self._last_step = int(step) if is_count(step) else self._last_step + 1
        self._leave_step()

    def _step_end(self, data: Object) -> Iterator[Breach]:
        if not self._is_open(data):
            here = f"{self._open_turn}, {self._open_step}"
            yield Breach("INV-12", "error", f"step {data.get('step')} of turn {data.get('turn')} ends, open is {here}")
        for call_id in self._calls.unresolved():
            yield Breach("INV-21", "warning", f"call {call_id!r} has no result when its step ends")
        self._open_step = None
        self._leave_step()

    def _retry(self, data: Object) -> Iterator[Breach]:
        self._slots.close()
        return iter(())

    def _leave_step(self) -> None:
        self._calls.clear()
        self._slots.clear()

    def _request_header(self, seq: int, data: Object) -> Iterator[Breach]:
        header = data.get("header")
        tools = header.get("tools") if self.version >= 4 and isinstance(header, dict) else None
        if isinstance(tools, list):
            self._tools[seq] = Counter(str(tool.get("name")) for tool in tools if isinstance(tool, dict))
        if self._open_turn is None:
            yield Breach("INV-29", "warning", "request/header outside a turn")

    def _message(self, kind: str, event: Object, sources: Ranges | None) -> Iterator[Breach]:
        """The identity of the message a surface event owns, and what belongs to its type."""
        data = event["data"]
        message = data if kind == "user/message" else data.get("message")
        if not isinstance(message, dict) or not is_text(message.get("id")):
            yield Breach("INV-03", "error", f"{kind} without an identified message", "invalid_payload")
            return
        role = MESSAGE_ROLES.get(kind) or tool_result_role(self.version)
        if message.get("role") != role:
            yield Breach("INV-24", "error", f"{kind} with a message of role {message.get('role')!r}", "invalid_payload")
        if kind == "assistant/message":
            self._calls.advertise(message)
            yield from self._slots.settle(sources) if self.version < 2 else ()
        elif kind == "tool/result":
            yield from self._calls.result(event, message, sources)
        elif kind == "developer/message":
            yield from self._additions(data, message)

    def _additions(self, data: Object, message: Object) -> Iterator[Breach]:
        """headerSeq of a developer message: there exactly with additions, and it defines each added tool once."""
        content = message.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        added = [str(block.get("toolName")) for block in blocks if block.get("type") == "tool-addition"]
        header_seq = data.get("headerSeq")
        defined = self._tools.get(header_seq, Counter()) if is_count(header_seq) else Counter()
        if bool(added) != ("headerSeq" in data) or any(defined[name] != 1 for name in added):
            yield Breach("INV-33", "error", "the header it names does not define each added tool exactly once")

    def _fold(self, kind: str, event: Object, sources: Ranges | None) -> Iterator[Breach]:
        """One step of the surface fold (spec 10.1, 10.4)."""
        seq, op = event["seq"], event.get("surfaceOp")
        is_system = kind == "system/message"
        if op == "append":
            if is_system and not self._has_head and self.surface:
                yield Breach("INV-32", "error", "a surface node stands before the first system/message")
            self._has_head = self._has_head or (is_system and not self.surface)
            self.surface.append(seq)
        elif isinstance(op, dict):
            first, last = replaced_range(op, self.version)
            span = surface_span(self.surface, first, last)
            if span is None:
                yield Breach("INV-06", "error", f"replaces {first} to {last}, which is no range of the surface")
                self.surface.append(seq)
                return
            yield from self._replace(kind, event, sources, span, is_system)
        if kind == "tool/result":
            self._results[seq] = _all_but_content(event["data"], self.version)

    def _replace(
        self, kind: str, event: Object, sources: Ranges | None, span: slice, is_system: bool
    ) -> Iterator[Breach]:
        shadowed = self.surface[span]
        if not _cites_all(sources or [], shadowed):
            yield Breach("INV-08", "error", "does not cite every event it replaces")
        yield from self._checkpoint(event["data"], shadowed)
        if kind == "tool/result":
            before = self._results.get(shadowed[0])
            if len(shadowed) != 1 or before != _all_but_content(event["data"], self.version):
                yield Breach("INV-09", "error", "a tool result is replaced by more than other content")
        if self._has_head and span.start == 0 and (len(shadowed) != 1 or not is_system):
            yield Breach("INV-32", "error", "replaces the system message at the head")
        self.surface[span] = [event["seq"]]

    def _checkpoint(self, data: Object, shadowed: list[int]) -> Iterator[Breach]:
        """Whether a compaction's checkpoint replaces just what its summary says."""
        source = data.get("source")
        compaction = source.get("compactionId") if isinstance(source, dict) else None
        if isinstance(compaction, str) and self._shadowed.pop(compaction, shadowed) != shadowed:
            severity: Severity = "error" if self.version >= 4 else "warning"
            yield Breach("INV-36", severity, "the checkpoint replaces other events than its summary names")


_BRACKETS = {
    "turn/start": Invariants._turn_start,
    "turn/end": Invariants._turn_end,
    "step/start": Invariants._step_start,
    "step/end": Invariants._step_end,
    "llm/retry": Invariants._retry,
    "llm/retry-started": Invariants._retry,
}


def replaced_range(op: Object, version: int) -> tuple[Any, Any]:
    """First and last seq that a replace operation names."""
    return (op.get("start"), op.get("end")) if version < 3 else (op.get("startSeq"), op.get("endSeq"))


def surface_span(surface: list[int], first: Any, last: Any) -> slice | None:
    """Where the nodes first to last stand on the surface; None where they are no range of it."""
    try:
        start = surface.index(first)
        return slice(start, surface.index(last, start) + 1)
    except ValueError:
        return None


def _cites_all(sources: Ranges, shadowed: list[int]) -> bool:
    runs = sorted(pairs(sources))
    firsts = [first for first, _ in runs]
    places = ((seq, bisect_right(firsts, seq) - 1) for seq in shadowed)
    return all(place >= 0 and seq <= runs[place][1] for seq, place in places)


def _claims_next_turn(data: Any) -> bool:
    return isinstance(data, dict) and data.get("target") == "next-turn" and bool(data.get("inserted"))


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
    rest = data | {"message": message}
    try:
        text = orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        text = json.dumps(rest, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).digest()
