"""The second count of calls that a provider may bill: one walk over a log, event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from counter_log import Event, Log, Object, Place, stream_chunks

BUCKETS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
}
BRACKETS = {"turn/start", "turn/end", "step/start", "step/end"}
# What tells that the call before is over.
ENDS = BRACKETS | {"llm/retry", "llm/retry-started", "session/end-seed"}
Key = tuple[int, Place]


@dataclass
class Call:
    """One call of a model, as the walk fills it in."""

    kind: str
    turn: int | None
    step: int | None
    first: Event
    last: Event
    started: int | None
    route: Object
    # What proves a call that left no row of its own: failed (a retry), unanswered (the start of a request).
    trace: str | None = None
    message: Event | None = None
    chunks: list[tuple[int, Object]] = field(default_factory=list)
    usage: Any = None
    usage_source: str = "none"
    usage_time: int | None = None
    number: int = 0
    outcome: str = ""
    settled: int | None = None
    meters: frozenset[str] = frozenset()

    def id(self, session: str) -> str:
        place = f"compaction/{self.number}" if self.kind == "compaction" else f"{self.turn}.{self.step}.{self.number}"
        return f"{session}/{place}" + (f"/b{self.first.branch}" if self.first.branch else "")

    def bill(self, usage: Any, source: str, time: int) -> None:
        if isinstance(usage, dict):
            self.usage, self.usage_source, self.usage_time = usage, source, time

    def take(self, time: int, chunk: Object, billed: int) -> None:
        """A chunk of its stream."""
        self.chunks.append((time, chunk))
        if chunk["type"] == "usage":
            self.bill(chunk["usage"], "stream", billed)

    @property
    def finish(self) -> Object:
        return next((chunk["reason"] for _, chunk in reversed(self.chunks) if chunk["type"] == "finish"), {})

    @property
    def finished(self) -> int | None:
        """Time of the row that says the call is over."""
        if self.last.type != "assistant/chunk" and self.trace != "unanswered":
            return self.last.time
        return next((time for time, chunk in reversed(self.chunks) if chunk["type"] == "finish"), None)

    @property
    def tokens(self) -> dict[str, int | None]:
        """The buckets; None where nothing is known or reported, and everywhere if one of the numbers is no count."""
        usage = self.usage or {}
        numbers = [usage.get(key) for key in (*BUCKETS, "totalTokens")]
        are_counts = all(value is None or (type(value) is int and value >= 0) for value in numbers)
        return {column: usage.get(key) if are_counts else None for key, column in BUCKETS.items()}

    @property
    def is_known(self) -> bool:
        """Whether input and output are known, which every usage has to state."""
        return self.tokens["input_tokens"] is not None and self.tokens["output_tokens"] is not None

    @property
    def total(self) -> int | None:
        buckets = [value or 0 for name, value in self.tokens.items() if name != "reasoning_tokens"]
        return sum(buckets) if self.is_known else None

    @property
    def source(self) -> str:
        return self.usage_source if self.usage is None or self.is_known else "invalid"

    @property
    def token_times(self) -> list[int]:
        return [time for time, chunk in self.chunks if _is_token(chunk)]

    @property
    def billed(self) -> int | None:
        times = (self.usage_time, self.settled, *self.token_times[-1:], self.started)
        return next((time for time in times if time is not None), None)

    @property
    def model(self) -> tuple[Any, Any]:
        """Provider and model: as the call itself names them, else those of the request in force."""
        named = self.first.data if self.kind == "compaction" else {}
        if self.message:
            named = self.message.data["message"].get("source", {})
        chosen = named if named.get("model") else self.route
        # A retry names the provider that failed.
        told = self.first.data if self.trace == "failed" else named
        return chosen.get("provider", told.get("provider")), chosen.get("model")

    @property
    def is_empty(self) -> bool | None:
        return self.message.data["message"].get("content") == [] if self.message else None

    def is_empty_max_tokens(self, state: str | None) -> bool:
        kind = self.finish.get("kind")
        return bool(self.is_empty) and (kind == "max-tokens" or (kind is None and state == "max-tokens"))

    @property
    def error_code(self) -> Any:
        failure = self.first.data if self.trace == "failed" else self.finish
        return failure.get("failure", {}).get("code")


def _is_token(chunk: Object) -> bool:
    is_delta = chunk["type"].endswith("-delta")
    return is_delta and bool(chunk.get("text") or chunk.get("argumentsDelta") or chunk.get("name"))


class Walk:
    """One pass over a log that finds its calls."""

    def __init__(self, log: Log) -> None:
        self.cut = log.cut
        self.calls: list[Call] = []
        self.open: Call | None = None
        self.bracket: Event | None = None
        self.compaction: Event | None = None
        self.context: Object = {}
        self.config: Object = {}
        # Of each step: its last call, or the candidate that its last event is; and where a request starts from.
        self.latest: dict[Key, Call] = {}
        self.start: dict[Key, int] = {}
        self.ended: set[Key] = set()
        branch = 0
        for event in log.events:
            if event.branch != branch:
                branch, self.open, self.bracket, self.compaction = event.branch, None, None, None
            self.see(event)
        self.calls += [call for call in self.latest.values() if call.trace == "unanswered"]
        self.calls.sort(key=lambda call: (call.first.line, call.first.seq))

    def see(self, event: Event) -> None:
        if event.type == "request/context":
            self.context = event.data
        elif event.type == "request/header":
            self.config = event.data.get("header", {}).get("config", {})
        if event.seq < self.cut:
            return
        if event.type == "assistant/chunk":
            self.see_chunk(event)
        elif event.type in ("assistant/message", "assistant/attempt"):
            self.see_settled(event)
        elif event.type.startswith("compaction/"):
            self.see_compaction(event)
        elif event.type in ENDS:
            self.see_end(event)

    def see_end(self, event: Event) -> None:
        key = (event.branch, event.place)
        if event.type in BRACKETS:
            self.bracket = event
        if event.type not in ("step/start", "turn/start", "session/end-seed"):
            self.open = None
        if event.type == "step/end":
            self.ended.add(key)
        if event.type == "llm/retry":
            call = self.new(event, "failed")
            if key not in self.latest or self.latest[key].trace:
                self.calls.append(call)
            self.latest[key] = call
        if event.type in ("step/start", "llm/retry-started"):
            self.start[key] = event.time
            if key not in self.ended:
                self.latest[key] = self.new(event, "unanswered")

    def new(self, event: Event, trace: str | None = None) -> Call:
        route = self.context if self.context.get("model") else self.config
        started = self.start.get((event.branch, event.place))
        return Call("model", *event.place, event, event, started, route, trace)

    def opened(self, event: Event) -> Call:
        call = self.latest[(event.branch, event.place)] = self.new(event)
        self.calls.append(call)
        return call

    def goes_on(self, event: Event) -> bool:
        return self.open is not None and (self.open.turn, self.open.step) == event.place

    def see_chunk(self, event: Event) -> None:
        if self.open is None or not self.goes_on(event) or self.open.finish:
            self.open = self.opened(event)
        self.open.last = event
        self.open.take(event.time, event.data["chunk"], event.time)
        if event.data["chunk"]["type"] == "finish":
            self.start[(event.branch, event.place)] = event.time

    def see_settled(self, event: Event) -> None:
        joins = event.type == "assistant/message" and event.sources != [] and self.goes_on(event)
        call = self.open if joins and self.open else self.opened(event)
        call.last, self.open = event, None
        for time, chunk in stream_chunks(event):
            call.take(time, chunk, event.time)
        if event.type == "assistant/message":
            call.message = event
            call.bill(event.data.get("usage"), "message", event.time)
        self.start[(event.branch, event.place)] = event.time

    def see_compaction(self, event: Event) -> None:
        if event.type == "compaction/start":
            self.compaction = event
        if event.type != "compaction/summary":
            return
        begun, bracket = self.compaction, self.bracket
        turn = begun.data.get("turn") if begun else None
        step = bracket.place[1] if bracket and bracket.type == "step/start" and bracket.place[0] == turn else None
        call = Call("compaction", turn, step, event, event, begun.time if begun else None, {})
        call.bill(event.data.get("usage"), "compaction", event.time)
        self.start[(event.branch, (turn, step))] = event.time
        self.calls.append(call)


def calls(log: Log, states: dict[int, str]) -> list[Call]:
    """All calls of the log's own part, in log order; states are those of its turns."""
    found = Walk(log).calls
    numbers: Counter[tuple[Any, ...]] = Counter()
    for call in found:
        place = () if call.kind == "compaction" else (call.turn, call.step)
        numbers[(call.first.branch, *place)] += 1
        call.number = numbers[(call.first.branch, *place)]
    ends = [event for event in log.events if event.type in ENDS and event.seq >= log.cut]
    for position, call in enumerate(found):
        end = next((event for event in ends if event.line > call.last.line), None)
        call.outcome = _outcome(call, found[position + 1 :], end, states)
        if call.outcome != "open":
            call.settled = call.finished if call.finished is not None else end.time if end else None
    for name in ("old", "new"):
        for call in _metered(log, found, name):
            call.meters |= {name}
    return found


def _outcome(call: Call, later: list[Call], end: Event | None, states: dict[int, str]) -> str:
    kind = call.finish.get("kind")
    if call.message or call.kind == "compaction":
        return "message"
    if kind == "error" or call.trace == "failed":
        return "failed"
    if kind == "aborted":
        return "interrupted"
    here = (call.first.branch, call.turn, call.step)
    is_retried = end is not None and end.type.startswith("llm/retry") and end.place == (call.turn, call.step)
    if is_retried or any((c.first.branch, c.turn, c.step) == here and c.kind == "model" for c in later):
        return "failed"
    if end is None and not later and call.last.type != "assistant/attempt":
        return "open"
    return "failed" if states.get(call.turn or 0) == "error" else "interrupted"


def _metered(log: Log, found: list[Call], meter: str) -> Iterator[Call]:
    """The calls whose usage is in the totals that the harness shows: old up to 0.1.1, new since 0.1.2."""
    starts = [event.line for event in log.events if event.type == "llm/retry-started" and event.seq >= log.cut]
    kept: dict[tuple[Any, ...], Call] = {}
    for call in found:
        if call.kind == "model" and call.usage is not None:
            period = sum(line < call.last.line for line in starts) if meter == "new" else 0
            kept[(call.turn, call.step, period)] = call
    return iter(kept.values())
