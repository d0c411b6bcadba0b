"""The chat completions protocol (0.1): answers as server-sent events, requests as items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from e2e.script import Answer, Item, call_item, text_of

PATH = "/chat/completions"
BASE = ""


def stream(answer: Answer, model: str) -> Iterator[bytes]:
    """The chunks of one answer, usage last; the protocol has no word for cache writes."""
    if answer.reasoning:
        yield _chunk(model, {"reasoning_content": answer.reasoning})
    if answer.text:
        yield _chunk(model, {"content": answer.text})
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        yield _chunk(model, {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
    if answer.is_broken:
        return
    yield _chunk(model, {}, _stop(answer))
    yield _data(model, choices=[], usage=_usage(answer))
    yield b"data: [DONE]\n\n"


def billed(answer: Answer) -> tuple[int | None, ...]:
    """What the log can know of the bill: input, output, cache reads; cache writes are unknown."""
    used = answer.used
    return (used.input, used.output, used.cache_read, None)


def items(request: dict[str, Any]) -> list[Item]:
    """What the request says, in order, the system prompt first."""
    return [item for message in request["messages"] for item in _items(message)]


def _items(message: dict[str, Any]) -> Iterator[Item]:
    text = text_of(message.get("content"))
    if message["role"] == "tool":
        yield ("result", message["tool_call_id"], text)
        return
    if message.get("reasoning_content"):
        yield ("reasoning", message["reasoning_content"])
    if text:
        yield (message["role"], text)
    for call in message.get("tool_calls") or []:
        yield call_item(call["id"], call["function"]["name"], call["function"]["arguments"])


def _usage(answer: Answer) -> dict[str, int]:
    used = answer.used
    prompt = used.input + used.cache_read
    return {
        "prompt_tokens": prompt,
        "completion_tokens": used.output,
        "total_tokens": prompt + used.output,
        "prompt_cache_hit_tokens": used.cache_read,
        "prompt_cache_miss_tokens": used.input,
    }


def _stop(answer: Answer) -> str:
    if answer.is_cut:
        return "length"
    return "tool_calls" if answer.calls else "stop"


def _chunk(model: str, delta: dict[str, Any], stop: str | None = None) -> bytes:
    return _data(model, choices=[{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": stop}])


def _data(model: str, **members: Any) -> bytes:
    chunk = {"id": "chat", "object": "chat.completion.chunk", "model": model, **members}
    return f"data: {json.dumps(chunk)}\n\n".encode()
