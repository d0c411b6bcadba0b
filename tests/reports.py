"""Small logs of calls, for reports: each call is a turn of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from turnlake.cli import main


@dataclass(frozen=True)
class Call:
    """A turn with one call at that time, ISO 8601 with an offset; and a tool call in it, where a tool is named."""

    at: str
    provider: str = "deepseek-official"
    model: str = "deepseek-v4-pro"
    input_tokens: int | None = 1000
    output_tokens: int = 100
    tool: str | None = None
    state: str = "completed"

    def events(self, turn: int) -> Iterable[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Type, data and other members of its events."""
        place = {"turn": turn, "step": 1}
        content: list[dict[str, Any]] = [{"type": "text", "text": "ok"}]
        if self.tool:
            content.append({"type": "tool-call", "id": f"c{turn}", "name": self.tool, "arguments": "{}"})
        source = {"kind": "model", "provider": self.provider, "model": self.model}
        message = {"id": f"a{turn}", "role": "assistant", "source": source, "content": content}
        usage = {"usage": {"inputTokens": self.input_tokens, "outputTokens": self.output_tokens}}
        yield "turn/start", {"turn": turn}, {}
        yield "step/start", place, {}
        told = {} if self.input_tokens is None else usage
        yield "assistant/message", place | {"message": message} | told, {"surfaceOp": "append"}
        if self.tool:
            yield "tool/call", place | {"callId": f"c{turn}", "name": self.tool, "arguments": "{}"}, {}
            result = {"type": "tool-result", "toolCallId": f"c{turn}", "content": [{"type": "text", "text": "ok"}]}
            answer = {"id": f"r{turn}", "role": "user", "content": [result]}
            answer["source"] = {"kind": "tool", "callId": f"c{turn}"}
            yield "tool/result", place | {"message": answer}, {"surfaceOp": "append"}
        yield "step/end", place, {}
        yield "turn/end", {"turn": turn, "reason": {"kind": self.state}}, {}


def write_log(folder: Path, session_id: str, calls: Iterable[Call], *, cwd: str | None = "/w", name: str = "") -> None:
    """A log of the oldest format in a folder of its own."""
    lines: list[dict[str, Any]] = []
    for turn, call in enumerate(calls, start=1):
        time = int(datetime.fromisoformat(call.at).timestamp() * 1000)
        for type_, data, members in call.events(turn):
            lines.append({"type": type_, "seq": len(lines), "time": time, "data": data} | members)
    created = lines[0]["time"] if lines else 1_787_659_200_000
    header = {"type": "session", "version": 0, "id": session_id, "createdAt": created, "cwd": cwd, "delegationDepth": 0}
    place = folder / (name or session_id)
    place.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in (header, *lines))
    (place / "session.jsonl").write_text(text, encoding="utf-8")


def build(logs: Path, lake: Path, *options: str) -> Path:
    """The lake of those logs."""
    assert main(["build", str(logs), "--lake", str(lake), "--workers", "1", "-q", *options]) == 0
    return lake
