"""What agents think, write, call and get back: blocks, arguments and results drawn from the vocabulary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from turnlake.sample.shapes import Json
from turnlake.sample.streams import Block
from turnlake.sample.words import Vocabulary

CALL_ID_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Tools by how often they are called.
COMMON_TOOLS = ("read",) * 6 + ("bash",) * 6 + ("edit",) * 4 + ("grep",) * 3
TOOL_NAMES = (*COMMON_TOOLS, "write", "glob", "todo_write", "web_search")
LABELS = ("look into", "review", "measure", "compare", "write tests for", "trace")
REQUESTS = ("Fix", "Please look at", "Add", "Why does", "Clean up", "Write a test for", "Speed up", "Explain")
TODO_STATES = ("completed", "in_progress", "pending", "pending")


@dataclass(frozen=True)
class Result:
    """What a tool call gave, and after how many milliseconds."""

    text: str
    milliseconds: int
    is_error: bool = False
    error: Json | None = None
    meta: Json | None = None


def thought(tokens: Sequence[str]) -> Block:
    """A block of reasoning."""
    return Block("reasoning", tokens, "".join(tokens))


def said(tokens: Sequence[str]) -> Block:
    """A block of text."""
    return Block("text", tokens, "".join(tokens))


def called(call_id: str, name: str, tokens: Sequence[str]) -> Block:
    """A block of a tool call; providers send an empty piece of arguments first."""
    return Block("tool-call", ["", *tokens], "".join(tokens), call_id, name)


class Content:
    """Draws content of one session."""

    def __init__(self, words: Vocabulary, rng: Random) -> None:
        self._words = words
        self._rng = rng

    def thought(self, count: int) -> Block:
        """Reasoning of `count` tokens."""
        return thought(self._rng.choices(self._words.prose, k=count))

    def said(self, count: int) -> Block:
        """Text of `count` tokens."""
        return said(self._rng.choices(self._words.prose, k=count))

    def request(self) -> str:
        """What a person asks for."""
        opening = f"{self._rng.choice(REQUESTS)} {self._words.path(self._rng)}"
        return f"{opening}:{self.prose(self._rng.randrange(8, 60))}"

    def prose(self, count: int) -> str:
        """Prose of `count` tokens."""
        return "".join(self._rng.choices(self._words.prose, k=count))

    def call_id(self) -> str:
        """A fresh id of a tool call."""
        return "call_00_" + "".join(self._rng.choices(CALL_ID_LETTERS, k=24))

    def call(self, size: int) -> Block:
        """A call of some tool with arguments of up to about `size` tokens."""
        name = self._rng.choice(TOOL_NAMES)
        return called(self.call_id(), name, self._arguments(name, size))

    def delegation(self) -> Block:
        """A call that gives a task to a subagent."""
        label = f"{self._rng.choice(LABELS)} {self._words.name(self._rng)}"
        tokens = ['{"', "description", '": "', label, '", "', "prompt", '": "', *self._code(40), '"}']
        return called(self.call_id(), "subagent", tokens)

    def result(self, call: Block, size: int) -> Result:
        """What the call gives: up to about `size` words; now and then an error."""
        rng = self._rng
        if call.name == "todo_write":
            return Result("The list has 4 items: 1 completed, 1 in progress, 2 pending.", 3)
        if rng.random() < 0.04:
            return Result(f"Error: {self.prose(20).strip()}", rng.randrange(4, 900), True, self._error(call))
        if call.name in {"edit", "write"}:
            return Result(f"Updated {self._words.path(rng)}{self.prose(16)}", rng.randrange(3, 40))
        meta = {"exitCode": 0} if call.name == "bash" else None
        return Result(self._output(call, size), self._milliseconds(call), meta=meta)

    def _error(self, call: Block) -> Json:
        if call.name == "bash":
            return {"name": "ToolTimeoutError", "code": "TIMEOUT"}
        return {"name": "FsError", "code": "FS_NOT_FOUND"}

    def _output(self, call: Block, size: int) -> str:
        if call.name != "read":
            return "".join(self._rng.choices(self._words.output, k=size))
        lines = "".join(self._rng.choices(self._words.code, k=size)).split("\n")
        return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, self._rng.randrange(1, 400)))

    def _milliseconds(self, call: Block) -> int:
        """Mostly quick, commands now and then slow; without powers and logarithms, whose last bit is the machine's."""
        base, longest = (60, 90_000) if call.name in {"bash", "web_search"} else (4, 400)
        return min(longest, int(base / (1.002 - self._rng.random())))

    def _todos(self) -> list[str]:
        return pieces({"todos": [{"content": self.prose(7).strip(), "status": state} for state in TODO_STATES]})

    def _arguments(self, name: str, size: int) -> list[str]:
        path, rng = self._words.path(self._rng), self._rng
        if name == "bash":
            command = ["make", " ", path] if rng.random() < 0.3 else self._code(min(size, 45))
            return ['{"', "command", '": "', *command, '", "', "description", '": "', path, '"}']
        if name == "edit":
            old, new = self._code(size // 2), self._code(size // 2)
            return ['{"', "path", '": "', path, '", "', "old", '": "', *old, '", "', "new", '": "', *new, '"}']
        if name == "write":
            return ['{"', "path", '": "', path, '", "', "content", '": "', *self._code(size), '"}']
        if name == "todo_write":
            return self._todos()
        key = {"read": "path", "web_search": "query"}.get(name, "pattern")
        return ['{"', key, '": "', *path.partition("/"), '"}']

    def _code(self, count: int) -> list[str]:
        return self._rng.choices(self._words.arguments, k=count)


def pieces(arguments: Json, size: int = 5) -> list[str]:
    """Arguments as JSON text in pieces of `size` characters."""
    text = json.dumps(arguments, ensure_ascii=False)
    return [text[start : start + size] for start in range(0, len(text), size)]
