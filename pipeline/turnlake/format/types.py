"""Event types, each declared once: the format versions that have it, and what it is (spec sections 6 and 10.1)."""

from __future__ import annotations

from typing import NamedTuple

NEWEST_VERSION = 4


class EventType(NamedTuple):
    """A type of event: the first and the last format version that have it.

    `is_message` says that its events own a message of that `role`, `is_in_step` that they name the step they belong to.
    """

    name: str
    since: int = 0
    until: int = NEWEST_VERSION
    is_message: bool = False
    role: str | None = None
    is_in_step: bool = False


def _types(names: str, since: int = 0, until: int = NEWEST_VERSION) -> tuple[EventType, ...]:
    return tuple(EventType(name, since, until) for name in names.split())


TYPES: dict[str, EventType] = {
    one.name: one
    for one in (
        EventType("user/message", is_message=True, role="user"),
        EventType("assistant/message", is_message=True, role="assistant", is_in_step=True),
        # Its role depends on the version: see `role_of`.
        EventType("tool/result", is_message=True, is_in_step=True),
        EventType("system/message", since=3, is_message=True, role="system", is_in_step=True),
        EventType("developer/message", since=4, is_message=True, role="developer", is_in_step=True),
        EventType("assistant/chunk", until=1),
        EventType("assistant/attempt", since=2, is_in_step=True),
        EventType("tool/call", is_in_step=True),
        *_types("turn/start turn/end step/start step/end request/header request/context session/end-seed"),
        *_types("llm/retry llm/retry-started compaction/start compaction/summary compaction/end compaction/prune"),
        *_types("todo/write session/title session/title-llm-request session-log-deepseek/delivery-accepted"),
        *_types("agent/inbox/spliced agent-preset/selected model/selection permission/preset"),
        *_types("approval/policy approval/asked approval/decided sandbox/mode plan/mode command/run command/done"),
        *_types("hook/invoked hook/result goal/change subagent/descriptor subagent/model-selection-policy"),
        *_types("team/member team/task team/message/queued team/message/delivered"),
        *_types("tool-workflow/run-start tool-workflow/agent-start tool-workflow/agent-end tool-workflow/run-end"),
        *_types("schedule/change feedback/record web/deepseek-search-llm-request"),
        *_types("tool/code-dispatch-start tool/code-dispatch", until=2),
        *_types("feedback/message-put feedback/message-delete", since=2),
        *_types("tool/ptc-dispatch-start tool/ptc-dispatch subagent/catalog deliverables/presented", since=3),
        *_types("workspace/changes image/offload", since=3),
        *_types("job/registered job/settled working-directory/change", since=4),
    )
}


def known_types(version: int) -> dict[str, bool]:
    """The types that a format version has, and whether the events of each own a message."""
    return {name: one.is_message for name, one in TYPES.items() if one.since <= version <= one.until}


KNOWN_TYPES = {version: frozenset(known_types(version)) for version in range(NEWEST_VERSION + 1)}
MESSAGE_TYPES = {
    version: frozenset(name for name, is_message in known_types(version).items() if is_message)
    for version in range(NEWEST_VERSION + 1)
}


def role_of(kind: str, version: int) -> str | None:
    """The role of the message that an event of this type owns; a tool result's is user up to v3 (spec 9.1)."""
    if kind == "tool/result":
        return "tool" if version >= 4 else "user"
    return TYPES[kind].role
