"""The messages protocol (0.2): answers as server-sent events, requests as items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from e2e.script import Answer, Item, call_item, text_of

PATH = "/anthropic/v1/messages"
BASE = "/anthropic"


def stream(answer: Answer, model: str) -> Iterator[bytes]:
    """The events of one answer. The input is billed at the start, the output at the end, as the provider does."""
    yield _event("message_start", message=_opening(answer, model))
    for index, (block, delta) in enumerate(_blocks(answer)):
        yield _event("content_block_start", index=index, content_block=block)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    if answer.is_broken:
        return
    usage = {"output_tokens": answer.used.output}
    yield _event("message_delta", delta={"stop_reason": _stop(answer), "stop_sequence": None}, usage=usage)
    yield _event("message_stop")


def billed(answer: Answer) -> tuple[int | None, ...]:
    """What the log can know of the bill: input, output, cache reads, cache writes."""
    used = answer.used
    return (used.input, used.output, used.cache_read, used.cache_write)


def items(request: dict[str, Any]) -> list[Item]:
    """What the request says, in order, the system prompt first."""
    said: list[Item] = [("system", text_of(request["system"]))] if request.get("system") else []
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said += [_item(message["role"], block) for block in blocks]
    return said


def _item(role: str, block: dict[str, Any]) -> Item:
    match block["type"]:
        case "text":
            return (role, block["text"])
        case "thinking":
            return ("reasoning", block["thinking"])
        case "tool_use":
            return call_item(block["id"], block["name"], block["input"])
        case "tool_result":
            return ("result", block["tool_use_id"], text_of(block.get("content")))
        case other:
            raise AssertionError(f"the harness sent a block of type {other}")


def _blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    if answer.reasoning:
        yield {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": answer.reasoning}
    if answer.text:
        yield {"type": "text", "text": ""}, {"type": "text_delta", "text": answer.text}
    for call in answer.calls:
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield start, {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}


def _opening(answer: Answer, model: str) -> dict[str, Any]:
    used = answer.used
    usage = {
        "input_tokens": used.input,
        "cache_read_input_tokens": used.cache_read,
        "cache_creation_input_tokens": used.cache_write,
        "output_tokens": 0,
    }
    return {"id": "msg", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}


def _stop(answer: Answer) -> str:
    if answer.is_cut:
        return "max_tokens"
    return "tool_use" if answer.calls else "end_turn"


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
