"""Sessions drawn at random: everything that can go wrong in one, in the formats with and without chunk events."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Object = dict[str, Any]

FIRST_MS = 1_786_665_600_000  # 2026-08-14T00:00:00Z: the cards of prices, and their clocks, change in the weeks after
LAST_MS = 1_789_689_600_000  # 2026-09-18T00:00:00Z: before the holidays
HOUR = 3_600_000
ROUTES = (
    ("deepseek-official", "deepseek-v4-pro"),
    ("deepseek-official", "deepseek-v4-flash"),
    ("deepseek-account", "deepseek-v4-flash"),
    ("openrouter", "z-ai/glm-5"),
)
ODD_USAGES: tuple[Any, ...] = (
    {"inputTokens": -1, "outputTokens": 4},
    {"inputTokens": 10, "outputTokens": 2.5},
    {"inputTokens": 10, "outputTokens": 4, "cacheReadTokens": "7"},
    {"inputTokens": 10},
)
FAILURE: Object = {"message": "busy", "code": "SERVER", "status": 502}
OVERFLOW: Object = {"message": "too long", "code": "CONTEXT_WINDOW_EXCEEDED"}
DECISIONS = ("allowed-once", "allowed-once", "rejected", "cancelled", "unavailable")
RUN_TYPES = {"text": "text-chunks", "reasoning": "reasoning-chunks"}


class Crash(Exception):
    """The process that writes the log dies."""


class Drawn:
    """A log under way. What a turn does is drawn from `rng`; a fuse makes the process die after so many events."""

    def __init__(self, rng: Random, version: int, session_id: str, **header: Any) -> None:
        self.rng, self.version = rng, version
        self.time = rng.randrange(FIRST_MS, LAST_MS)
        lineage = {} if version < 2 else {"isSeeded": False}
        self.header = {"type": "session", "version": version, "id": session_id, "createdAt": self.time}
        self.header |= {"cwd": f"/w/{rng.randrange(3)}", "delegationDepth": 0} | lineage | header
        self.lines: list[bytes] = []
        self.seq = self.turn = self.step = 0
        self.open_step = False
        self.fuse = -1
        self.surface: list[int] = []
        self.waiting: list[tuple[str, int | None]] = []
        self.calls = 0
        self.own = 0
        self.is_split = False

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # Lines

    def event(self, type_: str, data: Object, **members: Any) -> int:
        if self.fuse == 0:
            raise Crash
        self.fuse -= 1
        self.time += self.rng.choice((0, 1, 7, 40, 900)) - (5000 if self.chance(0.01) else 0)
        self.line({"type": type_, "seq": self.seq, "time": self.time, "data": data} | members, 1)
        return self.seq - 1

    def line(self, row: Object, events: int) -> None:
        self.lines.append(json.dumps(row).encode())
        self.seq += events
        self.own += 1

    def surfaced(self, type_: str, data: Object, **members: Any) -> int:
        seq = self.event(type_, data, surfaceOp="append", **members)
        self.surface.append(seq)
        return seq

    @property
    def place(self) -> Object:
        return {"turn": self.turn, "step": self.step}

    def stored(self) -> bytes:
        """The file: the header and all lines; sometimes one is broken, or the last one torn."""
        lines = [json.dumps(self.header).encode(), *self.lines]
        # Not in a copied part, nor where a second writer wrote, nor the start of a step: one could only guess.
        place = -self.rng.randrange(1, self.own + 1) if self.own else 0
        if place and not self.is_split and b"step/start" not in lines[place] and self.chance(0.1):
            lines[place] = b'{"type":"turn/sta'
        whole = b"".join(line + b"\n" for line in lines)
        return whole[: -self.rng.randrange(1, 40)] if self.lines and self.chance(0.15) else whole

    # Streams and messages

    def usage(self) -> Any:
        if self.chance(0.04):
            return self.rng.choice(ODD_USAGES)
        usage: Object = {"inputTokens": self.rng.choice((0, 7, 1200)), "outputTokens": self.rng.choice((0, 1, 350))}
        for key in ("cacheReadTokens", "cacheWriteTokens", "reasoningTokens", "totalTokens"):
            if self.chance(0.4):
                usage[key] = self.rng.randrange(1 if key == "reasoningTokens" else 5000)
        return usage

    def stream(self, usage: Any, finish: Object | None, *, is_silent: bool = False) -> Object:
        """Writes the chunks of a stream, before version 2; what its message or attempt event gains by it."""
        first, records = self.seq, []
        for kind in () if is_silent else self.rng.choice((("text",), ("reasoning", "text"))):
            count = self.rng.choice((1, 2, 3, 6))
            run = {"index": 0, "dt": [self.rng.choice((0, 3, 30, -2)) for _ in range(count - 1)]}
            run["texts"] = ["ab"] * count
            records.append({"type": RUN_TYPES[kind], "time0": self.time, **run})
            self.chunks(kind, run)
        for chunk in ({"type": "usage", "usage": usage}, {"type": "finish", "reason": finish}):
            if chunk[str(chunk["type"]).replace("finish", "reason")]:
                records.append({"type": "chunk", "time": self.time, "chunk": chunk})
                if self.version < 2:
                    self.event("assistant/chunk", self.place | {"chunk": chunk})
        return {"stream": records} if self.version >= 2 else {"sources": list(range(first, self.seq))}

    def chunks(self, kind: str, run: Object) -> None:
        if self.version >= 2:
            self.time += sum(run["dt"])
        elif len(run["texts"]) < 3:
            for text in run["texts"]:
                chunk = {"type": f"{kind}-delta", "index": 0, "text": text}
                self.event("assistant/chunk", self.place | {"chunk": chunk})
        else:
            if self.fuse == 0:
                raise Crash
            data = self.place | run
            self.line({"type": RUN_TYPES[kind], "seq0": self.seq, "time0": self.time, "data": data}, len(run["texts"]))
            self.time += sum(run["dt"])

    def message(self, blocks: list[Object], finish: str | None, **members: Any) -> None:
        """A stream that ends in a message."""
        usage = self.usage() if self.chance(0.9) else None
        made = self.stream(usage if self.chance(0.8) else None, {"kind": finish} if finish else None)
        provider, model = self.route
        source = {"kind": "model", "provider": provider, "model": model}
        message = {"id": f"a{len(self.lines)}", "role": "assistant", "content": blocks, "source": source}
        data = self.place | {"message": message} | ({"usage": usage} if usage and self.chance(0.9) else {}) | members
        if self.version >= 2:
            self.surfaced("assistant/message", data | made)
        else:
            self.surfaced("assistant/message", data, sourceEventSeqs=made["sources"])
        self.waiting += [(block["id"], None) for block in blocks if block["type"] == "tool-call"]

    def failed(self, failure: Object | None, **stream: Any) -> None:
        """A stream that ends without a message; without a failure nothing says how."""
        finish = {"kind": "error", "failure": failure} if failure else None
        made = self.stream(self.usage() if self.chance(0.4) else None, finish, **stream)
        if self.version >= 2:
            self.event("assistant/attempt", self.place | made)

    # What happens in a step

    def start_step(self) -> None:
        self.step, self.open_step = self.step + 1, True
        self.event("step/start", self.place)
        if self.step == 1 and self.chance(0.8):
            source = {"kind": "user"}
            text = {"type": "text", "text": "Hi"}
            data = {"id": f"u{len(self.lines)}", "role": "user", "content": [text], "source": source}
            self.surfaced("user/message", data)
        if not hasattr(self, "route") or self.chance(0.1):
            self.route = self.rng.choice(ROUTES)
            provider, model = self.route
            config = {"provider": provider, "model": model}
            self.event("request/header", {"header": {"config": config}, "reason": "change"})
            window = {"contextWindow": 1000} if self.chance(0.5) else {}
            if self.chance(0.8):
                self.event("request/context", config | window)

    def retry(self, number: int, *, is_started: bool = True) -> None:
        """The provider fails, before or after some output; the harness asks again, unless it is cancelled before."""
        if self.chance(0.7):
            self.failed(FAILURE if self.chance(0.7) else None, is_silent=self.chance(0.5))
        chain = {"retryId": f"y{self.turn}.{self.step}", **self.place}
        policy = {"provider": self.route[0], "mode": "always", "policyKey": "k", "retry": number}
        self.event("llm/retry", chain | policy | {"delayMs": 500.5, "failure": FAILURE})
        if is_started:
            self.event("llm/retry-started", chain | {"retry": number})

    def overflow(self) -> None:
        self.failed(OVERFLOW)
        self.compact(self.turn)

    def compact(self, turn: int | None) -> None:
        """A compaction of all the model sees; sometimes it fails."""
        if not self.surface:
            return
        first, last, shadowed = self.surface[0], self.surface[-1], list(self.surface)
        bracket = {"compactionId": f"k{len(self.lines)}", "turn": turn}
        start = self.event("compaction/start", bracket)
        if self.chance(0.2):
            self.event("compaction/end", bracket | {"error": "failed"})
            return
        provider, model = self.rng.choice(ROUTES)
        data = {"compactionId": bracket["compactionId"], "summary": [], "shadowedSeqs": shadowed}
        data |= {"shadowedRange": {"start": first, "end": last}, "shadowedTokenCount": 9}
        data |= {"provider": provider, "model": model} | ({"usage": self.usage()} if self.chance(0.8) else {})
        summary = self.event("compaction/summary", data)
        names = ("start", "end") if self.version < 3 else ("startSeq", "endSeq")
        source = {"kind": "plugin", "plugin": "compact"} if self.version < 4 else {"kind": "compact-checkpoint"}
        text = {"type": "text", "text": "so far"}
        message = {"id": bracket["compactionId"], "role": "user", "content": [text], "source": source}
        op = {"op": "replace", names[0]: first, names[1]: last}
        self.surface = [self.event("user/message", message, surfaceOp=op, sourceEventSeqs=[start, summary, *shadowed])]
        self.event("compaction/end", bracket)

    def ask_model(self, *, may_call: bool) -> None:
        for number in range(1, self.rng.choice((1, 1, 1, 2, 3))):
            self.retry(number)
        if self.chance(0.05):
            self.overflow()
        blocks = [{"type": "text", "text": "Hello"}] if self.chance(0.8) else []
        for _ in range(self.rng.choice((1, 1, 2, 3)) if may_call else 0):
            self.calls += 1
            call_id = "" if self.chance(0.03) else f"c{self.calls if self.chance(0.95) else 1}"
            blocks.append({"type": "tool-call", "id": call_id, "name": "bash", "arguments": "{}"})
        self.message(blocks, ("tool-calls" if may_call else "stop") if self.chance(0.9) else None)

    def run_tools(self) -> None:
        """Calls start in order, wait for people, and end in any order."""
        waiting, self.waiting = self.waiting, []
        started = []
        for call_id, _ in waiting:
            data = self.place | {"callId": call_id, "name": "bash", "arguments": "{}"}
            self.waiting.append((call_id, None))
            seq = self.event("tool/call", data)
            self.waiting[-1] = (call_id, seq)
            started.append((call_id, seq))
            if self.chance(0.2):
                self.approve(call_id)
            if self.chance(0.1):
                self.nest(call_id)
        for call_id, seq in self.rng.sample(started, len(started)):
            if self.chance(0.95):
                self.result(call_id, seq, self.rng.choice((None, None, None, "AbortError", "ToolError")))
                self.waiting.remove((call_id, seq))

    def approve(self, call_id: str) -> None:
        asked = {"id": f"p{len(self.lines)}", "toolName": "bash", "callId": call_id}
        self.event("approval/asked", asked)
        if self.chance(0.9):
            self.time += self.rng.randrange(60_000)
            self.event("approval/decided", {"id": asked["id"], "outcome": self.rng.choice(DECISIONS)})

    def nest(self, call_id: str) -> None:
        word = "code" if self.version < 3 else "ptc"
        data = {"rootCallId": call_id, "parentCallId": call_id, "subCallId": f"{call_id}:code:{len(self.lines)}"}
        data |= {"name": "read", "arguments": {}}
        self.event(f"tool/{word}-dispatch-start", data)
        if self.chance(0.9):
            self.event(f"tool/{word}-dispatch", data | {"isError": self.chance(0.3), "content": []})

    def result(self, call_id: str, seq: int | None, name: str | None, code: str = "SOME") -> None:
        content = [{"type": "text", "text": "done"}]
        message: Object = {"id": f"r{len(self.lines)}", "source": {"kind": "tool", "callId": call_id}}
        result = {"toolCallId": call_id, "content": content, "isError": name is not None}
        if self.version >= 4:
            message |= {"role": "tool"} | result
        else:
            message |= {"role": "user", "content": [{"type": "tool-result"} | result]}
        error = {"error": {"name": name, "code": code}} if name else {}
        sources = {} if seq is None else {"sourceEventSeqs": [seq]}
        self.surfaced("tool/result", self.place | {"message": message} | error, **sources)

    # Turns

    def end_step(self) -> None:
        self.event("step/end", self.place)
        self.open_step, self.waiting = False, []

    def end_turn(self, kind: str, **reason: Any) -> None:
        if self.open_step:
            self.end_step()
        self.event("turn/end", {"turn": self.turn, "reason": {"kind": kind} | reason})

    def work(self) -> None:
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            self.start_step()
            self.ask_model(may_call=True)
            self.run_tools()
            self.end_step()
            if self.chance(0.05):
                self.compact(self.turn)
        if self.chance(0.9):
            self.start_step()

    def complete(self) -> None:
        if self.open_step:
            self.ask_model(may_call=False)
        self.end_turn("completed")

    def fail(self) -> None:
        if self.open_step:
            self.failed(FAILURE if self.chance(0.8) else None)
        self.end_turn("error", error=FAILURE)

    def cut_off(self) -> None:
        if self.open_step:
            self.message([] if self.chance(0.7) else [{"type": "text", "text": "He"}], "max-tokens")
        self.end_turn("max-tokens")

    def cancel(self) -> None:
        """Somebody cancels: before anything came, in the stream, with a part of an answer, or in a delay."""
        ways: tuple[Callable[[], None], ...] = (
            lambda: None,
            lambda: self.failed(None),
            lambda: self.message([{"type": "text", "text": "He"}], None, interrupted=True),
            lambda: self.retry(1),
            lambda: self.retry(1, is_started=False),
        )
        if self.open_step:
            self.rng.choice(ways)()
        self.end_turn("aborted", reason={"kind": "user"})

    def block(self) -> None:
        self.end_turn("blocked")

    def recover(self) -> None:
        """What is found after a crash: nothing more, a restart, or the closers and a restart."""
        self.fuse = -1
        way = self.rng.choice(("nothing", "restart", "closers", "closers"))
        if way == "closers":
            for call_id, seq in self.waiting:
                names = ("ToolNotStartedError", "TOOL_NOT_STARTED")
                names = names if seq is None else ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN")
                self.result(call_id, seq, *names)
            self.end_turn("interrupted")
        if way != "nothing":
            self.event("session/end-seed", {})

    def play(self) -> None:
        """One more turn, whatever becomes of it."""
        self.time += self.rng.choice((1000, 60_000, HOUR, 9 * HOUR))
        self.turn, self.step, self.open_step, self.waiting = self.turn + 1, 0, False, []
        self.fuse = self.rng.randrange(25) if self.chance(0.2) else -1
        ends = (self.complete, self.complete, self.complete, self.fail, self.cut_off, self.cancel, self.block)
        try:
            self.event("turn/start", {"turn": self.turn})
            self.work()
            self.rng.choice(ends)()
            if self.chance(0.1):
                self.compact(None)
        except Crash:
            self.recover()

    def go_back(self, seq: int, turn: int) -> None:
        """A second writer, who has not seen what was written from `seq` on, goes on from there."""
        self.seq, self.turn, self.is_split = seq, turn, True
        self.surface = [node for node in self.surface if node < seq]
