"""One session as the harness would log it: what people, the agent, its tools and the provider do, event by event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

from turnlake.sample.calls import Caller, new_id
from turnlake.sample.content import Result
from turnlake.sample.log import Log, Sink
from turnlake.sample.setting import Model, Prompt
from turnlake.sample.shapes import (
    SYSTEM_MESSAGES,
    SYSTEM_PLUGIN,
    Header,
    Json,
    plugin_source,
    system_message,
    text_blocks,
    tool_message,
    user_message,
)
from turnlake.sample.streams import Block

SANDBOX_NOTE = "Current DSH file policy: workspace-write. Files outside the workspace can be read, not changed."
CHECKPOINT_OPENING = "An automatic checkpoint of the conversation so far.\n\n<compacted-summary>"
CHECKPOINT_CLOSING = "</compacted-summary>"


class Session(Caller):
    """Writes the events of one session through its log.

    The caller decides what happens; this class knows how the harness writes it down, in every version.
    Randomness only sets ids and small delays.
    """

    def __init__(self, log: Log, model: Model, prompt: Prompt, rng: Random) -> None:
        super().__init__(log, model, prompt, rng)
        self._claimed: Json | None = None
        self._header_reason: str | None = "initial"
        self._is_titled = False
        self._last_step = 0

    @property
    def version(self) -> int:
        """The format version of the log."""
        return self.log.header.version

    # Around turns

    def open(self, *, delegated: bool = False) -> None:
        """The policies that a session starts with."""
        source = {"source": "delegation"} if delegated else {}
        self.log.wait(self._rng.randrange(2, 9))
        self.log.event("permission/preset", {"preset": "workspace-write"})
        self.log.event("sandbox/mode", {"mode": "workspace-write", **source})
        self.log.event("approval/policy", {"policy": "never" if delegated else "ask", **source})

    def describe(self, label: str) -> None:
        """What a subagent's own log starts with."""
        data = {"version": 3, "mode": "one-shot", "provider": "spawn", "label": label}
        self.log.event("subagent/descriptor", data)
        self.log.event("session/end-seed", {})

    def start_turn(self, text: str, queued_ms: int = 1) -> None:
        """A person's message joins the queue and, `queued_ms` later, a turn claims it."""
        message = user_message(self.new_id(), [text], {"kind": "user"})
        self.log.event("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [message]})
        self.log.wait(queued_ms)
        self.turn += 1
        self.step = 0
        self.log.event("turn/start", {"turn": self.turn})
        claim = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
        self.log.event("agent/inbox/spliced", claim)
        self._claimed = message

    def end_turn(self, reason: Json | None = None) -> None:
        """The turn ends, by default because the agent is done."""
        self.log.wait(self._rng.randrange(1, 4))
        self.log.event("turn/end", {"turn": self.turn, "reason": reason or {"kind": "completed"}})
        self._claimed = None

    # Steps

    def start_step(self) -> None:
        """A step begins: claimed messages join the conversation, and the request's header where it is new."""
        self.step += 1
        self.log.wait(self._rng.randrange(5, 60))
        self.log.event("step/start", self._place())
        self._last_step = self.log.seq
        if self.version >= SYSTEM_MESSAGES and not self.log.surface:
            self._write_system()
        if self._claimed:
            self._join(self._claimed)
            self._claimed = None
        if self._header_reason:
            self._write_header(self._header_reason)
            self._header_reason = None

    def end_step(self) -> None:
        """The step ends; what it wrote becomes durable."""
        self.log.wait(self._rng.randrange(0, 3))
        self.log.event("step/end", self._place())
        self.log.flush()

    def _join(self, message: Json) -> None:
        seq = self.log.append("user/message", message)
        text = message["content"][0]["text"]
        self.meter.add(max(1, len(text) // 4))
        if not self._is_titled:
            self._snapshot()
            self._title(text, seq)
            self._is_titled = True

    def _write_system(self) -> None:
        # An id of its own making: the same session played in another version keeps all other ids.
        message_id = new_id(Random(f"system prompt of {self.log.header.id}"))
        message = system_message(self.version, message_id, self.prompt.system)
        self.log.append("system/message", {**self._place(), "message": message})

    def _snapshot(self) -> None:
        sections = [{"name": "sandbox:policy", "text": SANDBOX_NOTE}]
        source = plugin_source(self.version, SYSTEM_PLUGIN, form="snapshot", sections=sections)
        text = f"Current runtime context.\n\n{SANDBOX_NOTE}"
        self.log.append("user/message", user_message(self.new_id(), [text], source))

    def _title(self, text: str, seq: int) -> None:
        title = " ".join(text.split()[:5])[:40]
        self.log.event("session/title", {"title": title, "messageSeqs": [seq], "source": {"kind": "fallback"}})

    def _write_header(self, reason: str) -> None:
        config: Json = {"provider": self.model.provider, "model": self.model.name}
        if self.model.effort:
            config |= {"maxTokens": 256_000, "reasoningEffort": self.model.effort}
        header: Json = {"config": config}
        if self.version < SYSTEM_MESSAGES:
            header["system"] = self.prompt.system
        header["tools"] = list(self.prompt.tools)
        self.log.event("request/header", {"header": header, "reason": reason})
        context: Json = {"provider": self.model.provider, "model": self.model.name}
        if self.model.window:
            context["contextWindow"] = self.model.window
        if self.version >= SYSTEM_MESSAGES:
            context["systemPromptUpdate"] = "in-history"
        self.log.event("request/context", context)

    # Tools

    def start_call(self, call: Block) -> int:
        """The harness runs a call that the model asked for; returns the seq of its record."""
        self.log.wait(self._rng.randrange(1, 8))
        data = {**self._place(), "callId": call.call_id, "name": call.name, "arguments": call.text}
        return self.log.event("tool/call", data)

    def end_call(self, call: Block, seq: int, result: Result) -> None:
        """The call's result arrives, `result.milliseconds` from now."""
        self.log.wait(result.milliseconds)
        if call.name == "todo_write" and not result.is_error:
            self.log.event("todo/write", json.loads(call.text))
        call_id = call.call_id or ""
        message = tool_message(self.version, self.new_id(), call_id, [result.text], is_error=result.is_error)
        data: Json = {**self._place(), "message": message}
        if result.error:
            data["error"] = result.error
        if result.meta:
            data["meta"] = result.meta
        self.log.append("tool/result", data, [seq])
        self.meter.add(max(1, len(result.text) // 4))

    def approve(self, call: Block, reason: str, waited_ms: int, outcome: str = "allowed-once") -> None:
        """A person is asked about a call and answers after `waited_ms`."""
        asked = {"id": self.new_id(), "toolName": call.name, "callId": call.call_id, "reason": reason}
        self.log.event("approval/asked", asked)
        self.log.wait(waited_ms)
        self.log.event("approval/decided", {"id": asked["id"], "outcome": outcome})

    def catalogue(self, child: Header, label: str) -> None:
        """The parent's note of a subagent that it started (version 3 and up)."""
        if self.version >= SYSTEM_MESSAGES:
            data = {"version": 0, "childId": child.id, "childCreatedAt": child.created_at, "mode": "one-shot"}
            self.log.event("subagent/catalog", {**data, "label": label})

    # The whole session

    def compact(self, summary: str, *, in_turn: bool = False) -> None:
        """Everything but the system prompt and the last step's messages becomes a summary."""
        shadowed = self._before_last_step()
        if not shadowed:
            return
        compaction_id = self.new_id()
        bracket = {"compactionId": compaction_id, "turn": self.turn if in_turn else None}
        start = self.log.event("compaction/start", bracket)
        self.log.wait(self._rng.randrange(2000, 9000))
        end = self.log.event("compaction/summary", self._summary(compaction_id, summary, shadowed))
        texts = [CHECKPOINT_OPENING, summary, CHECKPOINT_CLOSING]
        source = plugin_source(self.version, "compact", compactionId=compaction_id)
        message = user_message(self.new_id(), texts, source)
        self.log.replace("user/message", message, [start, end, *shadowed], shadowed[0], shadowed[-1])
        self.log.event("compaction/end", bracket)
        self.meter.shrink(self.prompt.tokens + len(summary) // 4 + 400)

    def _before_last_step(self) -> list[int]:
        nodes = self.log.surface[1:] if self.version >= SYSTEM_MESSAGES else list(self.log.surface)
        kept = next((place for place, seq in enumerate(nodes) if seq >= self._last_step), len(nodes))
        return nodes[:kept]

    def _summary(self, compaction_id: str, summary: str, shadowed: list[int]) -> Json:
        tokens = len(summary) // 4
        return {
            "compactionId": compaction_id,
            "summary": text_blocks(summary),
            "shadowedRange": {"start": shadowed[0], "end": shadowed[-1]},
            "shadowedSeqs": shadowed,
            "shadowedTokenCount": max(0, self.meter.context - self.prompt.tokens),
            "provider": self.model.provider,
            "model": self.model.name,
            "usage": self.meter.fork().call(tokens, 0),
        }

    def fork(self, header: Header, sink: Sink, batches: Sequence[Sequence[bytes]]) -> Session:
        """A new session that begins as a copy of this one, whose lines so far, without the header, are `batches`.

        Only between turns, with everything flushed.
        """
        log = Log(header, sink)
        log.inherit(batches, self.log.seq, self.log.tally.chunks)
        log.surface = list(self.log.surface)
        child = Session(log, self.model, self.prompt, self._rng)
        child.turn, child.meter = self.turn, self.meter.fork()
        child._last_step = self._last_step
        child._header_reason = "resume"
        child._is_titled = True
        log.event("session/end-seed", {"inherited": True} if header.is_embedded else {})
        return child

    def resume(self) -> None:
        """A later run of the harness opens the session again."""
        self.log.event("session/end-seed", {})
        self._header_reason = "resume"
