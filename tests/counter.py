"""A second count of what the marts hold: plain Python over one log, one event after the other.

It shares no code with the package, and no way of thinking either: no sets, no windows, no columns. Reading is in
`counter_log`, calls of models in `counter_calls`, calls of tools in `counter_tools`; here are turns, days and prices.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from counter_calls import Call, calls
from counter_log import Event, Log, read
from counter_tools import MADE_UP, Tool, call_id_of, error_of, tool_blocks, tools

# What an event makes of the phase a turn is in.
PHASES = {
    "step/start": "request",
    "llm/retry": "request",
    "llm/retry-started": "request",
    "assistant/chunk": "streaming",
    "assistant/attempt": "settled",
    "assistant/message": "settled",
}


@dataclass
class Turn:
    """A turn, as far as it is told without its calls and tools."""

    number: int
    events: list[Event] = field(default_factory=list)
    is_abandoned: bool = False

    def first(self, type_: str) -> Event | None:
        return next((event for event in self.events if event.type == type_), None)

    @property
    def start(self) -> Event | None:
        return self.first("turn/start")

    @property
    def end(self) -> Event | None:
        ends = [event for event in self.events if event.type == "turn/end"]
        return ends[-1] if ends else None

    @property
    def state(self) -> str:
        if self.end is None:
            return "dangling"
        reason = self.end.data.get("reason")
        kind = reason.get("kind") if isinstance(reason, dict) else reason
        return {"disposed": "aborted", None: "unknown"}.get(kind, str(kind))

    @property
    def duration(self) -> int | None:
        return self.end.time - self.start.time if self.end and self.start else None

    @property
    def steps(self) -> set[Any]:
        return {e.data["step"] for e in self.events if e.type in ("step/start", "step/end", "llm/retry")}

    @property
    def retries(self) -> int:
        return sum(event.type == "llm/retry" for event in self.events)

    @property
    def last_phase(self) -> str | None:
        """What it was doing before anything closed it; None where it ran to its end."""
        if self.state in ("completed", "max-tokens"):
            return None
        phase = "claim"
        advertised, started, answered = Counter[Any](), Counter[Any](), Counter[Any]()
        for event in self.events:
            if event.type == "step/start" or phase != "claim":
                phase = PHASES.get(event.type, phase)
            if phase == "streaming" and event.data.get("chunk", {}).get("type") == "finish":
                phase = "settled"
            if event.type == "step/start":
                advertised, started, answered = Counter(), Counter(), Counter()
            elif event.type == "assistant/message":
                advertised += Counter(block.get("id", "") for block in tool_blocks(event))
            elif event.type == "tool/call":
                started[event.data.get("callId")] += 1
            elif event.type == "tool/result" and event.op == "append" and error_of(event).get("code") not in MADE_UP:
                answered[call_id_of(event)] += 1
        types = [event.type for event in self.events]
        compactions = types.count("compaction/start") - types.count("compaction/end")
        if phase != "settled":
            return "request" if compactions > 0 and phase != "claim" else phase
        return "request" if compactions > 0 else "tools" if (advertised | started) - answered else "stopping"


@dataclass(frozen=True)
class Session:
    """Everything counted of one log."""

    id: str
    log: Log
    turns: dict[int, Turn]
    calls: list[Call]
    tools: list[Tool]

    @property
    def clock_anomalies(self) -> int:
        own = [event for event in self.log.events if event.seq >= self.log.cut]
        return sum(b.time < a.time and a.branch == b.branch for a, b in pairwise(own))


def count(stored: bytes, session_id: str | None = None) -> Session:
    """What one log holds of its own."""
    log = read(stored)
    turns = _turns(log)
    found = calls(log, {number: turn.state for number, turn in turns.items()})
    return Session(session_id or log.header["id"], log, turns, found, tools(log))


def _turns(log: Log) -> dict[int, Turn]:
    inherited = {e.data.get("turn") for e in log.events if e.seq < log.cut and e.type == "turn/start"}
    turns: dict[int, Turn] = {}
    for event in log.state():
        number = event.data.get("turn")
        if event.type in ("turn/start", "session/end-seed"):
            for turn in turns.values():
                turn.is_abandoned |= turn.end is None and turn.number != number
        if not isinstance(number, int) or number in inherited:
            continue
        if event.type in ("turn/start", "turn/end", "step/start", "step/end"):
            turns.setdefault(number, Turn(number))
        if number in turns:
            turns[number].events.append(event)
    for turn in turns.values():
        turn.is_abandoned &= turn.end is None
    return turns


# Days and prices


def day(ms: int) -> date:
    """The UTC day of an instant."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).date()


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


# USD per million tokens off-peak: input, output, cache read; from the first instant on. Flat before the second card.
CARDS = {
    "deepseek-v4-pro": [
        (_ms("2026-04-26T12:15:00+00:00"), "0.435", "0.87", "0.003625"),
        (_ms("2026-08-16T16:00:00+00:00"), "0.66", "1.98", "0.022"),
    ],
    "deepseek-v4-flash": [
        (_ms("2026-04-26T12:15:00+00:00"), "0.14", "0.28", "0.0028"),
        (_ms("2026-08-16T16:00:00+00:00"), "0.22", "0.66", "0.007"),
        (_ms("2026-09-10T04:00:00+00:00"), "0.15", "0.60", "0.003"),
    ],
}
CARDS["deepseek-v4-flash-vision-exp"] = CARDS["deepseek-v4-flash"]
CARDS["deepseek-flash"] = CARDS["deepseek-v4-flash"][2:]
PEAK_FROM = _ms("2026-08-16T16:00:00+00:00")
WEEKENDS_FROM = _ms("2026-08-22T16:00:00+00:00")


def window(ms: int) -> str:
    """flat, peak or off-peak at an instant that is no Chinese holiday."""
    if ms < PEAK_FROM:
        return "flat"
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    is_workday = ms < WEEKENDS_FROM or (at + timedelta(hours=8)).weekday() < 5
    return "peak" if is_workday and (1 <= at.hour < 4 or 6 <= at.hour < 10) else "off-peak"


def cost(call: Call) -> Decimal | None:
    """USD of a call; None where its usage or its price is unknown."""
    provider, model = call.model
    if provider not in ("deepseek-official", "deepseek-account") or not call.is_known or call.billed is None:
        return None
    cards = [card for card in CARDS.get(model, []) if card[0] <= call.billed]
    if not cards:
        return None
    input_, output, read_ = (Decimal(text) for text in cards[-1][1:])
    tokens = {name: value or 0 for name, value in call.tokens.items()}
    prompt = (tokens["input_tokens"] + tokens["cache_write_tokens"]) * input_ + tokens["cache_read_tokens"] * read_
    factor = 2 if window(call.billed) == "peak" else 1
    return (prompt + tokens["output_tokens"] * output) * factor / 1_000_000
