"""What a log says the model was sent, in the form in which requests are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from e2e.script import Item, call_item, text_of

Event = Mapping[str, Any]
SETTLED = ("assistant/message", "assistant/attempt")


def sent(events: Sequence[Event]) -> Iterator[list[Item]]:
    """What each request of the conversation said, by the log: the messages before its attempt was settled."""
    for seq, event in enumerate(events):
        if event["type"] in SETTLED:
            yield said(messages(events[:seq]))


def messages(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """The messages that stand after these events. Nothing in the scenarios replaces any."""
    for event in events:
        if "surfaceOp" in event:
            assert event["surfaceOp"] == "append", event
            data = event["data"]
            yield data if event["type"] == "user/message" else data["message"]


def said(messages: Iterable[Mapping[str, Any]]) -> list[Item]:
    """Messages of any format as items."""
    return [item for message in messages for item in _items(message)]


def _items(message: Mapping[str, Any]) -> Iterator[Item]:
    if message["role"] == "tool":
        yield ("result", message["toolCallId"], text_of(message["content"]))
        return
    for block in message["content"]:
        match block["type"]:
            case "text":
                yield (message["role"], block["text"])
            case "reasoning":
                yield ("reasoning", block["text"])
            case "tool-call":
                yield call_item(block["id"], block["name"], block["arguments"])
            case "tool-result":
                yield ("result", block["toolCallId"], text_of(block["content"]))
            case other:
                raise AssertionError(f"a block of type {other}")
