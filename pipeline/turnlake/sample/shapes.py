"""What the format versions write differently: headers, messages, replace operations, usage."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Json = dict[str, Any]

NEWEST = 4
# The first version with each trait.
EMBEDDED_STREAMS = 2
SYSTEM_MESSAGES = 3
NAMED_SOURCES = 4
TOOL_ROLE = 4

SYSTEM_PLUGIN = "@deepseek-ai/dsh-system-prompt"
# Version 4 has no `plugin` sources: the plugin's name became the kind, some under a new name.
KIND_OF_PLUGIN = {"compact": "compact-checkpoint", SYSTEM_PLUGIN: "runtime-context"}


@dataclass(frozen=True)
class Header:
    """The first line of a log. `inherited` is the number of events copied from the parent, None without a copy."""

    version: int
    id: str
    created_at: int
    cwd: str | None = None
    parent: str | None = None
    inherited: int | None = None
    origin: str | None = None
    depth: int = 0
    preset: str | None = None

    @property
    def is_embedded(self) -> bool:
        """Whether streams are embedded in messages, and copies marked by an event instead of a length."""
        return self.version >= EMBEDDED_STREAMS

    def line(self) -> Json:
        """The header as its version writes it, in the order of keys that the harness uses."""
        fields = {
            "type": "session",
            "version": self.version,
            "id": self.id,
            "createdAt": self.created_at,
            "cwd": self.cwd,
            "parentSession": self.parent,
            "seedLength": None if self.is_embedded else self.inherited,
            "isSeeded": self.inherited is not None if self.is_embedded else None,
            "origin": self.origin,
            "delegationDepth": self.depth,
            "agentPreset": self.preset,
        }
        return {key: value for key, value in fields.items() if value is not None}


def text_blocks(*texts: str) -> list[Json]:
    """Content of text blocks."""
    return [{"type": "text", "text": text} for text in texts]


def user_message(message_id: str, texts: list[str], source: Json) -> Json:
    """A message of the user's role, whoever wrote it."""
    return {"content": text_blocks(*texts), "source": source, "role": "user", "id": message_id}


def plugin_source(version: int, plugin: str, **fields: Any) -> Json:
    """The source of a message that a plugin wrote."""
    if version >= NAMED_SOURCES:
        return {"kind": KIND_OF_PLUGIN.get(plugin, plugin), **fields}
    return {"kind": "plugin", "plugin": plugin, **fields}


def system_message(version: int, message_id: str, text: str) -> Json:
    """The system prompt as a message of its own (version 3 and up)."""
    named = version >= NAMED_SOURCES
    source = {"kind": "system-prompt"} if named else {"kind": "plugin", "plugin": SYSTEM_PLUGIN}
    return {"role": "system", "content": text_blocks(text), "source": source, "id": message_id}


def tool_message(version: int, message_id: str, call_id: str, texts: list[str], *, is_error: bool) -> Json:
    """The message of a tool's result: role `tool` in version 4, before that a wrapper block in role `user`."""
    source = {"kind": "tool", "callId": call_id}
    content = text_blocks(*texts)
    if version >= TOOL_ROLE:
        return {
            "role": "tool",
            "source": source,
            "toolCallId": call_id,
            "content": content,
            "isError": is_error,
            "id": message_id,
        }
    wrapper = {"type": "tool-result", "toolCallId": call_id, "content": content, "isError": is_error}
    return {"source": source, "content": [wrapper], "role": "user", "id": message_id}


def replace_op(version: int, first: int, last: int) -> Json:
    """The surface operation that puts an event in the place of a range of nodes."""
    if version >= SYSTEM_MESSAGES:
        return {"op": "replace", "startSeq": first, "endSeq": last}
    return {"op": "replace", "start": first, "end": last}


def with_ranges(seqs: list[int]) -> list[int | list[int]]:
    """A list of seqs as later products write it: runs of three and more as `[first, last]`.

    A list that is not strictly increasing stays as it is.
    """
    if any(later <= earlier for earlier, later in pairwise(seqs)):
        return list(seqs)
    runs: list[list[int]] = []
    for seq in seqs:
        if runs and seq == runs[-1][-1] + 1:
            runs[-1].append(seq)
        else:
            runs.append([seq])
    packed: list[int | list[int]] = []
    for run in runs:
        if len(run) > 2:
            packed.append([run[0], run[-1]])
        else:
            packed += run
    return packed
