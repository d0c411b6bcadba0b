"""Logs in which every string is a canary that can be told wherever it turns up, and holds a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from logs import START_MS, Session, dumps
from turnlake.cli import main
from turnlake.format.types import KNOWN_TYPES

CANARY = b"zqx"
SECRET = b"sk-zqs"
# Without these a log can't be understood; `wild` logs have canaries here too.
STRUCTURE = ("type", "kind", "role", "surfaceOp")
# What the harness writes somewhere below `data`, so that each hot column of some event gets a canary.
MEMBERS = (
    "id name arguments callId parentCallId message error code title text label model provider cwd path preset mode "
    "outcome status reason summary objective retryId requestId hookId jobId runId agentId childId sessionId command "
    "compactionId source tool toolName description policyKey senderSessionId plugin content output stderr url query"
).split()


class Canaries:
    """Replaces strings; one string has one canary, so ids still belong together."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def of(self, text: str) -> str:
        """The canary of a string."""
        number = len(self.known)
        return self.known.setdefault(text, f"zqx{number:05d} sk-zqs{number:05d}abcdefghijkl zqx")

    def through(self, value: Any, *, wild: bool = False, key: str = "") -> Any:
        """The value with a canary for each string in it; JSON in a string stays JSON, a folder absolute."""
        structure = STRUCTURE if not wild else ("type", "surfaceOp")
        if isinstance(value, dict):
            return {name: self.through(item, wild=wild, key=name) for name, item in value.items()}
        if isinstance(value, list):
            return [self.through(item, wild=wild, key=key) for item in value]
        if not isinstance(value, str) or (key in structure):
            return value
        if value.startswith("{") and value.endswith("}"):
            return json.dumps(self.through(json.loads(value), wild=True), ensure_ascii=False)
        return f"/{self.of(value)}" if key == "cwd" else self.of(value)


def write_canaries(root: Path) -> None:
    """Logs of every version below the root, tame and wild, and one with every known type of event."""
    canaries = Canaries()
    for version in sorted(KNOWN_TYPES):
        folder = root.with_name(f"plain-{version}")
        words = ["sample", str(folder), "--sessions", "3", "--mb", "0.2", "--version", str(version), "--raw", "-q"]
        assert main(words) == 0
        for number, log in enumerate(sorted(folder.rglob("*.jsonl"))):
            lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
            _write(canaries, root, f"{version}-{number}", log.name, lines, wild=number == 2, damaged=number == 2)
    _write(canaries, root, "types", "session.v4.jsonl", _one_of_each(), wild=False)
    _write(canaries, root, "failures", "session.v4.jsonl", _failures(), wild=False)
    _write(canaries, root, "chunks", "session.v1.jsonl", _failed_chunks(), wild=False)


def _one_of_each() -> list[Any]:
    data = {name: name for name in MEMBERS}
    deep = {"message": data, "error": data, "failure": data, "reason": {"kind": "x", **data}, "source": data}
    events: list[Any] = [
        {"type": "session", "version": 4, "id": "types", "createdAt": START_MS, "cwd": "/w", "delegationDepth": 0,
         "isSeeded": False, "agentPreset": "p", "parentSession": "q", "origin": "o"}
    ]  # fmt: skip
    for shape in (data, data | deep, {"turn": 1, "step": 1} | data | deep):
        for type_ in sorted(frozenset[str]().union(*KNOWN_TYPES.values())):
            seq = len(events) - 1
            events.append({"type": type_, "seq": seq, "time": START_MS + seq, "data": shape})
    return events


FAILURE = {"message": "m", "code": "c", "requestId": "r", "status": 500}
USAGE = {"inputTokens": "many", "outputTokens": 1}
CHUNKS: list[Any] = [
    {"type": "text-delta", "index": 0, "text": "a", "unknown": "u"},
    {"type": "usage", "usage": USAGE},
    {"type": "finish", "reason": {"kind": "error", "failure": FAILURE}},
    {"type": "zqx sk-zqs91000abcdefghijkl", "text": "b"},
]


def _failures() -> list[Any]:
    """A turn that ends in a failed call after a compaction, a chunk type and a lone surrogate that nobody knows."""
    session = Session(4, id="failures")
    session.open_step()
    session.add("compaction/start", {"compactionId": "k", "turn": 1})
    session.add(
        "compaction/summary", {"compactionId": "k", "summary": [], "provider": "p", "model": "m", "usage": USAGE}
    )
    session.add("compaction/end", {"compactionId": "k", "turn": 1, "error": "e"})
    request = {"provider": "p", "model": "m", "route": {"provider": "p", "model": "m"}, "body": {"model": "m"}}
    session.add("session/title-llm-request", request)
    session.add("web/deepseek-search-llm-request", request)
    stream = [{"type": "chunk", "time": session.time, "chunk": chunk} for chunk in CHUNKS]
    session.add("assistant/attempt", {**session.place, "stream": stream})
    session.add("llm/retry", {**session.place, "retryId": "r", "retry": 1, "failure": FAILURE, "provider": "p"})
    session.user("a \ud83d lone surrogate", unknown="member")
    session.add("assistant/message", {**session.place, "stream": stream[:1], "usage": USAGE, "message": {
        "id": "a", "role": "r", "source": {"kind": "k", "provider": "p", "model": "m"},
        "content": [{"type": "tool-call", "id": "c", "name": "n", "arguments": "{}"}],
    }}, surfaceOp="append")  # fmt: skip
    session.add("tool/call", {**session.place, "callId": "c", "name": "n", "arguments": "{}"})
    session.add("session/title", {"title": "t", "source": {"kind": "k"}})
    session.turn_end("error", step=1, error=FAILURE, **FAILURE)
    session.turn_start()
    session.turn_end("zqx sk-zqs91001abcdefghijkl")
    return [json.loads(line) for line in session.lines]


def _failed_chunks() -> list[Any]:
    """The same chunks as lines of their own."""
    session = Session(1, id="chunks")
    session.open_step()
    for chunk in CHUNKS:
        session.chunk(chunk)
    return [json.loads(line) for line in session.lines]


def _write(
    canaries: Canaries, root: Path, name: str, file: str, lines: list[Any], *, wild: bool, damaged: bool = False
) -> None:
    """A log. Of a damaged one every fifth line is cut, so that findings quote it, and the next has an unknown type."""
    folder = root / f"zqx project {name}" / f"zqx session {name}"
    folder.mkdir(parents=True)
    head, *events = lines
    told = [dumps(canaries.through({**head, "id": f"{name} {head['id']}"}))]
    for at, event in enumerate(events):
        type_ = canaries.of(event["type"]) if damaged and at % 5 == 1 else event["type"]
        told.append(
            dumps({**canaries.through(event, wild=wild), "type": type_})[: 150 if damaged and at % 5 == 0 else None]
        )
    (folder / file).write_bytes(b"".join(line + b"\n" for line in told))


CARD = {
    "id": "zqx sk-zqs90000abcdefghijkl",
    "provider": "zqx sk-zqs90001abcdefghijkl",
    "model": "zqx sk-zqs90002abcdefghijkl",
    **{"currency": "USD", "valid_from": "", "valid_to": "", "input": "1", "output": "2", "cache_read": ""},
    **{"cache_write": "", "peak_factor": "", "windows": "", "calendar": ""},
    "source": "zqx sk-zqs90003abcdefghijkl",
    "checked_on": "",
}
PRICES = f"{','.join(CARD)}\n{','.join(CARD.values())}\n"
