"""The state machine over one log's accepted events: brackets, surface, calls (spec sections 5, 10 and 11).

`check` gets every event in order and returns what it breaks. A breach of severity `error` is one for which
the harness refuses the log in that format version; the others only deserve a finding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from turnlake.format.breach import Breach, counted, warning
from turnlake.format.calls import Calls
from turnlake.format.citations import Citations
from turnlake.format.compactions import Compactions
from turnlake.format.dispatches import SETTLES, STARTS, Dispatches
from turnlake.format.retries import Retries
from turnlake.format.runs import Run
from turnlake.format.slots import Slots
from turnlake.format.sources import Ranges, pairs
from turnlake.format.spending import fits_together, stated_usage
from turnlake.format.values import Object, digest_of, is_count, is_text, name_of
from turnlake.format.vocabulary import MESSAGE_ROLES, SURFACE_TYPES, tool_result_role

STEP_SCOPED = frozenset(
    ("assistant/message", "assistant/attempt", "system/message", "developer/message", "tool/call", "tool/result")
)


class Invariants:
    """The state of one log after the events checked so far.

    `session_id` is the header's, `seed_length` the length of the inherited prefix that a header of v0 or v1 states.
    """

    def __init__(self, version: int, session_id: str | None = None, seed_length: int = 0) -> None:
        self.version = version
        self._seed_length = seed_length
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
        # The provider of the request header in force; before the first one there is none.
        self._provider: Any = None
        self._has_header = False
        # True until the first header, or until an answer before it was told.
        self._awaits_header = True
        self._retries = Retries()
        self._compactions = Compactions(version)
        self._dispatches = Dispatches()
        self._citations = Citations(session_id)
        self._message_ids: set[str] = set()

    @property
    def open_step(self) -> tuple[int | None, int | None]:
        """The open turn and the open step, None where there is none."""
        return self._open_turn, self._open_step

    def note_chunks(self, seq: int, run: Run, count: int) -> Breach | None:
        """What a run of count chunks of v0 or v1 breaks whose first chunk has that seq."""
        self._may_reopen = False
        self._slots.add(seq, run, count)
        if run.turn != self._open_turn or run.step != self._open_step:
            return Breach("INV-14", "warning", f"chunks of turn {run.turn}, step {run.step} outside that step")
        if run.chunk is not None and run.chunk_type == "usage" and not fits_together(run.chunk.get("usage")):
            return UNFIT_USAGE
        return None

    def check(self, event: Object, sources: Ranges | None) -> Iterator[Breach]:
        """What the event breaks; sources are its decoded sourceEventSeqs."""
        kind, data = event["type"], event.get("data")
        if self._compactions.pruned is not None:
            yield from self._compactions.carry_out(event, self._replaced(event))
        if isinstance(data, dict):
            if kind in STEP_SCOPED:
                yield from self._in_step(kind, data, event.get("surfaceOp"))
            rule = _RULES.get(kind)
            if rule is not None:
                yield from rule(self, event, data)
        if kind in self._surface_types and isinstance(data, dict):
            yield from self._message(kind, event, sources)
            yield from self._fold(kind, event, sources)
        self._may_reopen = kind == "agent/inbox/spliced" and _claims_next_turn(data)

    def finish(self) -> Iterator[Breach]:
        """What the end of the log breaks."""
        if self._open_turn is not None:
            yield Breach("INV-46", "advisory", f"turn {self._open_turn} is open: a live writer, or one that died")
        yield from self._end_of_headerless_part()

    def _in_step(self, kind: str, data: Object, op: Any) -> Iterator[Breach]:
        if kind == "tool/result" and op != "append":
            if self._open_turn is None:
                yield warning("INV-15", "a tool result is replaced outside a turn")
        elif not self._is_open(data):
            where = f"turn {data.get('turn')}, step {data.get('step')}"
            yield Breach("INV-14", "error", f"{kind} names {where}, open is {self._open_turn}, {self._open_step}")

    def _is_open(self, data: Object) -> bool:
        """Whether data names the open turn and step; true and 1 are not the same."""
        turn, step = data.get("turn"), data.get("step")
        return is_count(turn) and is_count(step) and turn == self._open_turn and step == self._open_step

    def _turn_start(self, event: Object, data: Object) -> Iterator[Breach]:
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

    def _turn_end(self, event: Object, data: Object) -> Iterator[Breach]:
        if self._open_step is not None:
            yield Breach("INV-13", "error", f"turn {data.get('turn')} ends while step {self._open_step} is open")
        if self._open_turn is None or not is_count(data.get("turn")) or data["turn"] != self._open_turn:
            yield Breach("INV-10", "error", f"turn {data.get('turn')} ends, open is {self._open_turn}")
        self._open_turn = self._open_step = None
        self._leave_step()

    def _step_start(self, event: Object, data: Object) -> Iterator[Breach]:
        turn, step = data.get("turn"), data.get("step")
        if turn != self._open_turn or self._open_turn is None or self._open_step is not None:
            here = f"{self._open_turn}, {self._open_step}"
            yield Breach("INV-12", "error", f"step {step} of turn {turn} starts, open is {here}")
        if not is_count(step) or step != self._last_step + 1:
            yield Breach("INV-12", "error", f"step {step} follows step {self._last_step}")
        self._open_step = self._last_step = int(step) if is_count(step) else self._last_step + 1
        self._leave_step()

    def _step_end(self, event: Object, data: Object) -> Iterator[Breach]:
        if not self._is_open(data):
            here = f"{self._open_turn}, {self._open_step}"
            yield Breach("INV-12", "error", f"step {data.get('step')} of turn {data.get('turn')} ends, open is {here}")
        for call_id in self._calls.unresolved():
            yield warning("INV-21", f"call {call_id!r} has no result when its step ends")
        self._open_step = None
        self._leave_step()

    def _retry(self, event: Object, data: Object) -> Iterator[Breach]:
        self._slots.close()
        return self._retries.announce(data, self._open_turn, self._last_step, self._provider)

    def _retry_started(self, event: Object, data: Object) -> Iterator[Breach]:
        self._slots.close()
        return self._retries.start(data)

    def _leave_step(self) -> None:
        self._calls.clear()
        self._slots.clear()

    def _request_header(self, event: Object, data: Object) -> Iterator[Breach]:
        header = data.get("header")
        header = header if isinstance(header, dict) else {}
        tools, config = header.get("tools") if self.version >= 4 else None, header.get("config")
        if isinstance(tools, list):
            self._tools[event["seq"]] = Counter(str(tool.get("name")) for tool in tools if isinstance(tool, dict))
        if self._open_turn is None:
            yield warning("INV-29", "request/header outside a turn")
        elif self._has_header and data.get("reason") == "initial":
            yield warning("INV-29", "another request/header than the first has the reason initial")
        yield from self._end_of_headerless_part()
        self._has_header = True
        self._provider = config.get("provider") if isinstance(config, dict) else None

    def _end_of_headerless_part(self) -> Iterator[Breach]:
        """A request/header comes, or the log ends: chunks before the first one have to be told now."""
        if self._awaits_header and self._slots.has_any:
            yield ANSWER_BEFORE_HEADER
        self._awaits_header = False

    def _request_context(self, event: Object, data: Object) -> Iterator[Breach]:
        if self._open_turn is None:
            yield warning("INV-29", "request/context outside a turn")

    def _attempt(self, event: Object, data: Object) -> Iterator[Breach]:
        """A call of the model has settled."""
        if self._awaits_header:
            self._awaits_header = False
            yield ANSWER_BEFORE_HEADER
        if not fits_together(stated_usage(data)):
            yield UNFIT_USAGE

    def _tool_call(self, event: Object, data: Object) -> Iterator[Breach]:
        self._dispatches.forget(data.get("callId"))
        return self._calls.start(event["seq"], data)

    def _place(self) -> tuple[int | None, int]:
        return self._open_turn, self._last_turn

    def _summary(self, event: Object, data: Object) -> Iterator[Breach]:
        yield from self._compactions.summary(data)
        if not fits_together(stated_usage(data)):
            yield UNFIT_USAGE

    def _prune(self, event: Object, data: Object) -> Iterator[Breach]:
        self._compactions.prune(event["seq"], data)
        return iter(())

    def _command_run(self, event: Object, data: Object) -> Iterator[Breach]:
        self._citations.command_run(event["seq"], data)
        return iter(())

    def _end_seed(self, event: Object, data: Object) -> Iterator[Breach]:
        self._compactions.abandon()
        if data.get("inherited") is True:
            self._citations.inherit()
        return iter(())

    def _message(self, kind: str, event: Object, sources: Ranges | None) -> Iterator[Breach]:
        """The identity of the message a surface event owns, and what belongs to its type."""
        data = event["data"]
        message = data if kind == "user/message" else data.get("message")
        if not isinstance(message, dict) or not is_text(message.get("id")):
            yield Breach("INV-03", "error", f"{kind} without an identified message", "invalid_payload")
            return
        if kind != "tool/result" or event.get("surfaceOp") == "append":
            name = name_of(message["id"])
            if name in self._message_ids:
                yield warning("INV-50", f"another message has the id {name!r}")
            self._message_ids.add(name)
        role = MESSAGE_ROLES.get(kind) or tool_result_role(self.version)
        if message.get("role") != role:
            yield Breach("INV-24", "error", f"{kind} with a message of role {message.get('role')!r}", "invalid_payload")
        if kind == "assistant/message":
            self._calls.advertise(message)
            yield from self._settle(event["seq"], sources) if self.version < 2 else ()
        elif kind == "user/message":
            yield from self._prompt(event["seq"], message)
        elif kind == "tool/result":
            yield from self._calls.result(event, message, sources)
        elif kind == "developer/message":
            yield from self._additions(data, message)

    def _prompt(self, seq: int, message: Object) -> Iterator[Breach]:
        source = message.get("source")
        if isinstance(source, dict) and source.get("kind") == "user":
            self._citations.prompt(seq)
            if self._open_step is None:
                yield counted("INV-16", "advisory", "a message of a human stands outside a step")

    def _settle(self, seq: int, sources: Ranges | None) -> Iterator[Breach]:
        """A message of v0 or v1 with the chunks it cites."""
        yield from self._slots.settle(sources)
        if sources and min(sources) < self._seed_length <= seq:
            yield warning("INV-43", "the inherited prefix ends inside an attempt")

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
        yield from self._compactions.checkpoint(event["data"], shadowed)
        if kind == "tool/result":
            before = self._results.get(shadowed[0])
            if len(shadowed) != 1 or before != _all_but_content(event["data"], self.version):
                yield Breach("INV-09", "error", "a tool result is replaced by more than other content")
        if self._has_head and span.start == 0 and (len(shadowed) != 1 or not is_system):
            yield Breach("INV-32", "error", "replaces the system message at the head")
        self.surface[span] = [event["seq"]]

    def _replaced(self, event: Object) -> tuple[Any, Any] | None:
        op = event.get("surfaceOp")
        return replaced_range(op, self.version) if isinstance(op, dict) else None


UNFIT_USAGE = counted(
    "INV-49", "advisory", "a usage with more reasoning than output, or another total than its parts give"
)

ANSWER_BEFORE_HEADER = warning("INV-30", "the model answers before the first request/header")

Rule = Callable[[Invariants, Object, Object], Iterator[Breach]]

# What events have to keep besides what their surface and their step demand.
_RULES: dict[str, Rule] = {
    "turn/start": Invariants._turn_start,
    "turn/end": Invariants._turn_end,
    "step/start": Invariants._step_start,
    "step/end": Invariants._step_end,
    "assistant/message": Invariants._attempt,
    "assistant/attempt": Invariants._attempt,
    "tool/call": Invariants._tool_call,
    "request/header": Invariants._request_header,
    "request/context": Invariants._request_context,
    "llm/retry": Invariants._retry,
    "llm/retry-started": Invariants._retry_started,
    "compaction/start": lambda self, event, data: self._compactions.start(data, self._place()),
    "compaction/summary": Invariants._summary,
    "compaction/end": lambda self, event, data: self._compactions.end(data, self._place()),
    "compaction/prune": Invariants._prune,
    "command/run": Invariants._command_run,
    "command/done": lambda self, event, data: self._citations.command_done(event["seq"], data),
    "session/end-seed": Invariants._end_seed,
    "session/title": lambda self, event, data: self._citations.title(data),
    "session-log-deepseek/delivery-accepted": lambda self, event, data: self._citations.delivery(event["seq"], data),
    "subagent/catalog": lambda self, event, data: self._citations.child(data),
    **dict.fromkeys(STARTS, lambda self, event, data: self._dispatches.start(data, self._open_turn)),
    **dict.fromkeys(SETTLES, lambda self, event, data: self._dispatches.settle(data, self._open_turn)),
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
    return digest_of(data | {"message": message})
