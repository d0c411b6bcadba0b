"""One surface event to its message (spec section 10.2), and what may be done to a message afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count, pairwise
from typing import Any

from turnlake.format.values import Object, is_count
from turnlake.messages.frozen import Frozen, Message, freeze

# A message of these without content says nothing to the model: the event is a node all the same.
SILENT_WHEN_EMPTY = frozenset(("assistant/message", "system/message", "developer/message"))


def owned(event: Object) -> Any:
    """What stands where a surface event has its message; anything but an object is damage."""
    data = event.get("data")
    if event["type"] == "user/message" or not isinstance(data, dict):
        return data
    return data.get("message")


def spoken(event: Object) -> Object | None:
    """The message that a surface event gives, as it stands in the event; None where it gives none."""
    message = owned(event)
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    # Something without any of these is damage, too; no log that the harness accepts holds it.
    if not (isinstance(message.get("id"), str) or isinstance(message.get("role"), str) or _is_list(content)):
        return None
    if event["type"] in SILENT_WHEN_EMPTY and _is_list(content) and not content:
        return None
    return message


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def message_of(event: Object) -> Message | None:
    """The frozen message that a surface event gives, content verbatim; None where it gives none."""
    message = spoken(event)
    return None if message is None else freeze(message)


def normalised_messages(messages: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """The messages with every tool result in the one form of format 4: role `tool`, content unwrapped.

    For whoever compares sessions of several formats; it is not what the model saw before format 4.
    """
    return tuple(_normalised(freeze(message)) for message in messages)


def _normalised(message: Message) -> Message:
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, tuple) or len(content) != 1:
        return message
    block = content[0]
    if not isinstance(block, dict) or block.get("type") != "tool-result":
        return message
    result = {key: value for key, value in block.items() if key != "type"}
    return Frozen({**message, "role": "tool", **result})


def offloaded(message: Message, indexes: Any) -> Message | None:
    """The message with the images of those indexes marked as offloaded (spec section 10.5).

    Images count from 0 in depth-first order. None where indexes do not rise, or name an image that is not there
    or is marked already.
    """
    if not _is_rising(indexes):
        return None
    marking = _Marking(frozenset(indexes))
    marked = marking.of(message)
    return marked if marking.left == 0 else None


def _is_rising(indexes: Any) -> bool:
    if not isinstance(indexes, (list, tuple)) or not indexes or not all(map(is_count, indexes)):
        return False
    return all(before < after for before, after in pairwise(indexes))


class _Marking:
    """One walk over a message; `left` counts the indexes that found no image to mark."""

    def __init__(self, indexes: frozenset[int]) -> None:
        self.indexes, self.left = indexes, len(indexes)
        self._numbers = count()

    def of(self, block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        if block.get("type") == "image":
            if next(self._numbers) not in self.indexes or block.get("offloaded"):
                return block
            self.left -= 1
            return Frozen({**block, "offloaded": True})
        content: Sequence[Any] | Any = block.get("content")
        if not isinstance(content, tuple):
            return block
        return Frozen({**block, "content": tuple([self.of(part) for part in content])})
