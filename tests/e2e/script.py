"""What a test tells the model to say, and the form in which wire and log are compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

# A message as what it says: (system|user|assistant|reasoning, text), (call, id, name, arguments) or (result, id, text).
# Providers merge and split messages in ways of their own; in this form both sides are the same.
Item = tuple[str, ...]


@dataclass(frozen=True)
class Used:
    """Tokens of one answer as the server bills them; `input` is what no cache served."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    id: str
    name: str
    arguments: dict[str, Any]

    @staticmethod
    def bash(id: str, command: str) -> Call:
        """A call of the tool that both versions have."""
        return Call(id, "bash", {"command": command, "description": "Run a step of the test"})


@dataclass(frozen=True)
class Answer:
    """One answer of the model.

    With calls it asks for tools; a cut one has reached the output limit; a broken one ends before its last words.
    """

    used: Used
    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    is_cut: bool = False
    is_broken: bool = False


@dataclass(frozen=True)
class Failure:
    """An HTTP error instead of an answer."""

    status: int


def call_item(id: str, name: str, arguments: str | dict[str, Any]) -> Item:
    """A tool call; its arguments are one JSON text whichever way they were sent."""
    parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    return ("call", id, name, json.dumps(parsed, sort_keys=True))


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    """The text of a message's content, given as text or as blocks."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(block["text"] for block in content)
