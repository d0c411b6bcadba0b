"""Event types by format version (spec section 6), and which of them own a message (spec 10.1)."""

from __future__ import annotations

NEWEST_VERSION = 4

_ALL = """
turn/start turn/end step/start step/end user/message assistant/message tool/call tool/result
request/header request/context session/end-seed todo/write session/title session/title-llm-request
session-log-deepseek/delivery-accepted llm/retry llm/retry-started
compaction/start compaction/summary compaction/end compaction/prune
agent/inbox/spliced agent-preset/selected model/selection permission/preset
approval/policy approval/asked approval/decided sandbox/mode plan/mode command/run command/done
hook/invoked hook/result goal/change subagent/descriptor subagent/model-selection-policy
team/member team/task team/message/queued team/message/delivered
tool-workflow/run-start tool-workflow/agent-start tool-workflow/agent-end tool-workflow/run-end
schedule/change feedback/record web/deepseek-search-llm-request
"""
_UP_TO_2 = "tool/code-dispatch-start tool/code-dispatch"
_FROM_2 = "assistant/attempt feedback/message-put feedback/message-delete"
_FROM_3 = """
system/message tool/ptc-dispatch-start tool/ptc-dispatch subagent/catalog deliverables/presented
workspace/changes image/offload
"""
_FROM_4 = "developer/message job/registered job/settled working-directory/change"


def _types(*names: str) -> frozenset[str]:
    return frozenset(" ".join(names).split())


_V0 = _types(_ALL, _UP_TO_2, "assistant/chunk")
_V2 = _types(_ALL, _UP_TO_2, _FROM_2)
_V3 = _types(_ALL, _FROM_2, _FROM_3)
_V4 = _V3 | _types(_FROM_4)

KNOWN_TYPES: dict[int, frozenset[str]] = {0: _V0, 1: _V0, 2: _V2, 3: _V3, 4: _V4}

_SURFACE = _types("user/message assistant/message tool/result")
SURFACE_TYPES: dict[int, frozenset[str]] = {
    0: _SURFACE,
    1: _SURFACE,
    2: _SURFACE,
    3: _SURFACE | {"system/message"},
    4: _SURFACE | {"system/message", "developer/message"},
}

# Role of the message that a surface event owns; a tool result's role depends on the version (spec 9.1).
MESSAGE_ROLES = {
    "user/message": "user",
    "assistant/message": "assistant",
    "system/message": "system",
    "developer/message": "developer",
}


def tool_result_role(version: int) -> str:
    """Role of a tool result's message: user up to v3, tool from v4 on."""
    return "tool" if version >= 4 else "user"
