"""Events that are neither message nor call nor bracket, in a line each."""

from __future__ import annotations

from collections.abc import Callable

from turnlake.inspect.screen import Line, Tone
from turnlake.inspect.session import Row
from turnlake.inspect.words import duration, failure_words, one_line

# Told by the lines of turns, steps, messages and calls.
ELSEWHERE = frozenset(
    (
        *("turn/start", "turn/end", "step/start", "step/end", "tool/call", "tool/result"),
        *("user/message", "assistant/message", "assistant/attempt", "system/message", "developer/message"),
        *("tool/code-dispatch-start", "tool/code-dispatch", "tool/ptc-dispatch-start", "tool/ptc-dispatch"),
    )
)
# Shown only where everything is.
QUIET = ELSEWHERE | {
    *("agent/inbox/spliced", "request/header", "request/context", "session/title", "session/title-llm-request"),
    *("compaction/summary", "compaction/prune", "todo/write", "feedback/record", "llm/retry-started"),
}


def _retry(event: Row) -> str:
    wait = f" after {duration(round(event['delay_ms']))}" if event["delay_ms"] is not None else ""
    return f"retry {event['retry'] or '?'}{wait}: {failure_words(event)}"


def _seeded(event: Row) -> str:
    return "from here on events are this session's own, or a new process has taken it up"


def _asked(event: Row) -> str:
    return f"asks whether {event['tool_name'] or 'a tool'} may run [{event['call_id'] or 'no call named'}]"


def _compaction_end(event: Row) -> str:
    return f"compaction failed: {one_line(event['outcome'])}" if event["outcome"] else "compaction done"


_WORDS: dict[str, tuple[Tone, Callable[[Row], str]]] = {
    "llm/retry": ("bad", _retry),
    "session/end-seed": ("faint", _seeded),
    "approval/asked": ("tool", _asked),
    "compaction/start": ("injected", lambda event: "compaction: what the model sees is being summarised"),
    "compaction/end": ("injected", _compaction_end),
    "image/offload": ("injected", lambda event: "images are not sent any more from here on"),
}


def mark_line(event: Row) -> Line | None:
    """The event in a line; None where other lines tell it."""
    if event["type"] in ELSEWHERE:
        return None
    tone, words = _WORDS.get(event["type"], ("faint", _facts))
    return Line(0, f"#{event['seq']} {one_line(event['type'], 60)}", words(event), tone)


def _facts(event: Row) -> str:
    """What the columns of an event of any type tell."""
    names = ("label", "outcome", "reason_kind", "source_kind", "tool_name", "provider", "model", "child_id")
    return ", ".join(one_line(str(event[name]), 80) for name in names if event[name] is not None)
