"""Calls of the model: request headers and contexts, usage, retries (INV-29, INV-30, INV-34, INV-49)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from turnlake.format.legacy import RETRY_ID
from turnlake.format.records import EventLine
from turnlake.format.rules.state import LogState, rule
from turnlake.format.values import Object, is_count, name_of


@rule("request/header")
def request_header(state: LogState, record: EventLine, data: Object) -> None:
    """Stands in a turn; only the first has the reason initial."""
    header = data.get("header")
    header = header if isinstance(header, dict) else {}
    tools, config = header.get("tools") if state.version >= 4 else None, header.get("config")
    if isinstance(tools, list):
        names = (str(tool.get("name")) for tool in tools if isinstance(tool, dict))
        state.header_tools[record.event["seq"]] = Counter(names)
    if state.open_turn is None:
        state.warn("INV-29", "request/header outside a turn")
    elif state.has_header and data.get("reason") == "initial":
        state.warn("INV-29", "another request/header than the first has the reason initial")
    see_end(state)
    state.has_header = True
    state.provider = config.get("provider") if isinstance(config, dict) else None


def see_end(state: LogState) -> None:
    """A request header comes, or the log ends: chunks before the first header have to be reported now."""
    if state.awaits_header and state.has_chunks:
        _answer_before_header(state)
    state.awaits_header = False


@rule("request/context")
def request_context(state: LogState, record: EventLine, data: Object) -> None:
    """Stands in a turn."""
    if state.open_turn is None:
        state.warn("INV-29", "request/context outside a turn")


@rule("assistant/message", "assistant/attempt")
def answer(state: LogState, record: EventLine, data: Object) -> None:
    """A call of the model has settled: after a request header, with token counts that fit together."""
    if state.awaits_header:
        state.awaits_header = False
        _answer_before_header(state)
    usage = data.get("usage")
    if usage is None and "usage" not in data:
        usage = record.stream.usage.get("usage") if record.stream and record.stream.usage else None
    if usage is not None:
        check_usage(state, usage)


@rule("compaction/summary")
def summary_usage(state: LogState, record: EventLine, data: Object) -> None:
    """The call for a summary has a usage of its own."""
    check_usage(state, data.get("usage"))


def _answer_before_header(state: LogState) -> None:
    state.warn("INV-30", "the model answers before the first request/header")


def check_usage(state: LogState, usage: Any) -> None:
    """Reasoning is a part of output, and the total the sum of its parts; what is no count is not judged."""
    if not isinstance(usage, dict):
        return
    output, reasoning, total = usage.get("outputTokens"), usage.get("reasoningTokens"), usage.get("totalTokens")
    fits = not (is_count(output) and is_count(reasoning) and reasoning > output)
    if fits and is_count(total):
        parts = [usage.get("inputTokens"), output, usage.get("cacheReadTokens", 0), usage.get("cacheWriteTokens", 0)]
        fits = not all(map(is_count, parts)) or total == sum(parts)
    if not fits:
        state.count(
            "INV-49", "advisory", "a usage with more reasoning than output, or another total than its parts give"
        )


@rule("llm/retry")
def retry(state: LogState, record: EventLine, data: Object) -> None:
    """A retry is announced: in its step, for the provider in force, counting 1, 2, 3 in its series."""
    state.is_slot_closed = True
    state.announced.add(_retry_key(data))
    place = (data.get("turn"), data.get("step"))
    here = (state.open_turn, state.last_step)
    if state.open_turn is None or place != here:
        state.warn("INV-34", f"a retry of turn {place[0]}, step {place[1]} stands in {here[0]}, {here[1]}")
    elif state.provider is not None and data.get("provider") != state.provider:
        state.warn("INV-34", "a retry names another provider than the request header in force")
    elif fault := _fault_of_series(state, data):
        state.warn("INV-34", fault)


def _fault_of_series(state: LogState, data: Object) -> str | None:
    series = tuple(name_of(data.get(key)) for key in ("turn", "step", "provider", "policyKey"))
    retry_id, number = _retry_id(data), data.get("retry")
    known, last = state.retry_series.get(series, (retry_id, 0))
    state.retry_series[series] = (known, int(number) if is_count(number) else last + 1)
    if not is_count(number) or number != last + 1:
        return f"retry {number} follows retry {last} of its series"
    if retry_id != known or (retry_id is not None and state.retry_owners.setdefault(retry_id, series) != series):
        return "a series of retries has two ids, or shares its id with another"
    return None


@rule("llm/retry-started")
def retry_started(state: LogState, record: EventLine, data: Object) -> None:
    """A retry begins that was announced."""
    state.is_slot_closed = True
    key = _retry_key(data)
    if key in state.announced:
        state.announced.remove(key)
    else:
        state.warn("INV-34", f"retry {data.get('retry')} starts, and no retry like it was announced")


def _retry_key(data: Object) -> tuple[str | None, ...]:
    """What announcement and start of one retry have in common."""
    return (_retry_id(data), *(name_of(data.get(key)) for key in ("turn", "step", "retry")))


def _retry_id(data: Object) -> str | None:
    """The id of a series; None where the oldest logs have none and each event was given its own."""
    retry_id = data.get("retryId")
    return None if retry_id is None or str(retry_id).startswith(RETRY_ID) else name_of(retry_id)
