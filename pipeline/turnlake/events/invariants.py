"""The state machine over one log's accepted events: brackets, surface, calls (spec sections 5, 10 and 11).

`check` gets every event in order and returns what it breaks. A breach of severity `error` is one for which
the harness refuses the log in that format version; the others only deserve a finding.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import orjson

from turnlake.events.runs import Run
from turnlake.events.sources import Ranges, pairs
from turnlake.events.values import Object, is_count, is_text
from turnlake.events.vocabulary import MESSAGE_ROLES, SURFACE_TYPES, tool_result_role
from turnlake.findings import Severity


class Breach(NamedTuple):
    """One broken statement: its id in spec section 11, how grave, what exactly."""

    id: str
    severity: Severity
    detail: str
    # The verdict reason, where the breach has one of its own.
    reason: str = "invariant"


# SHA-256 of the fixed texts of synthetic results for calls that never started (spec 2.4).
# Start of the message's id, first format version that has it, digest.
NOT_STARTED = (
    ("interrupted-tool-result-", 0, "613f8e88c4324029a758e388a77c9082e93d36d39ad23d5f76c5529fe7b0b42f"),
    ("forked-tool-result-", 4, "c11f77294d1c5da06c123f963e28ac20b6db83808d6da4908ca9aee695046eea"),
)
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


class Slots:
    """The chunks of the current step, attempt by attempt (v0 and v1): INV-25."""

    def __init__(self) -> None:
        self._key: tuple[Any, Any] | None = None
        self._slots: list[Ranges] = []
        self._is_closed = True

    def clear(self) -> None:
        """Forget all; a step begins or ends."""
        self._slots, self._is_closed, self._key = [], True, None

    def close(self) -> None:
        """The next chunk belongs to another attempt."""
        self._is_closed = True

    def add(self, seq: int, run: Run, count: int) -> None:
        """A run of count chunks whose first chunk has that seq."""
        key = (run.turn, run.step)
        if self._is_closed or self._key != key:
            self._slots.append([])
            self._key = key
        ranges = self._slots[-1]
        if ranges and ranges[-1] == seq - 1:
            ranges[-1] = seq + count - 1
        else:
            ranges += (seq, seq + count - 1)
        self._is_closed = run.chunk_type == "finish"

    def settle(self, sources: Ranges | None) -> Iterator[Breach]:
        """A message with these sources ends the attempt."""
        self.close()
        if not sources or (self._slots and self._slots[-1] == sources):
            return
        fits = any(all(_within(first, last, slot) for first, last in pairs(sources)) for slot in self._slots)
        if not fits or any(a >= b for a, b in zip(sources[1::2], sources[2::2], strict=False)):
            yield Breach("INV-25", "error", "cites chunks that are not those of one attempt of its step, in order")


def _within(first: int, last: int, ranges: Ranges) -> bool:
    return any(start <= first and last <= end for start, end in pairs(ranges))


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
