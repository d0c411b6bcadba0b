"""Whether the token counts of a model call fit together (INV-49)."""

from __future__ import annotations

from typing import Any

from turnlake.format.values import Object, is_count


def stated_usage(data: Object) -> Any:
    """The usage of the call that an event tells of: its own, else the last one in its stream; None without any."""
    if "usage" in data:
        return data["usage"]
    stream = data.get("stream")
    for record in reversed(stream if isinstance(stream, list) else []):
        chunk = record.get("chunk") if isinstance(record, dict) else None
        if isinstance(chunk, dict) and chunk.get("type") == "usage":
            return chunk.get("usage")
    return None


def fits_together(usage: Any) -> bool:
    """False where reasoning exceeds output or the total is not the sum of its parts; what is no count is not judged."""
    if not isinstance(usage, dict):
        return True
    output, reasoning, total = (usage.get(key) for key in ("outputTokens", "reasoningTokens", "totalTokens"))
    if is_count(output) and is_count(reasoning) and reasoning > output:
        return False
    parts = [usage.get("inputTokens"), output, usage.get("cacheReadTokens", 0), usage.get("cacheWriteTokens", 0)]
    return not is_count(total) or not all(map(is_count, parts)) or total == sum(parts)
