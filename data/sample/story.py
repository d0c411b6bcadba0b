"""The stories of the sample as Python sees them, read from TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Use:
    """A tool call and its result after so many milliseconds. `asks` is the reason why a person has to approve it."""

    tool: str
    arguments: Mapping[str, Any]
    output: str = ""
    milliseconds: int = 0
    is_error: bool = False
    asks: str | None = None
    waited_ms: int = 0
    outcome: str = "allowed-once"

    @property
    def text(self) -> str:
        """The arguments as a model writes them."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Step:
    """One call of the model that ends in tool calls."""

    uses: Sequence[Use]
    thought: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Ask:
    """One turn. `end` tells how it ends where it does not end in an answer."""

    prompt: str
    steps: Sequence[Step] = ()
    answer: str = ""
    thought: str = ""
    end: str = "completed"
    retries: int = 0


def read_stories(path: Path) -> tuple[dict[str, list[Ask]], list[str]]:
    """The stories of a file by name, and the lines of the tutorial's log."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    lines = tables.pop("tutorial")
    return {name: [_ask(turn) for turn in turns] for name, turns in tables.items()}, lines


def _ask(turn: dict[str, Any]) -> Ask:
    return Ask(**{**turn, "steps": [_step(step) for step in turn.get("steps", [])]})


def _step(step: dict[str, Any]) -> Step:
    return Step(**{**step, "uses": [Use(**use) for use in step["uses"]]})
