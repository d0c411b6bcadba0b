"""The hot columns: what the models ask of an event, taken while the parsed object is at hand.

Each function answers with column names of `tables.EVENTS` or `tables.CHUNK_RUNS`. Nothing here raises on odd
payloads: what is not of the right type is left NULL, the payload keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson

from turnlake.format.runs import Run
from turnlake.format.values import BadRecord, Object, is_count, is_int, parse_leniently

Facts = dict[str, Any]

# A number above this is no number of tokens, and sums of such would not fit into 64 bits.
MOST_TOKENS = 2**40

_USAGE_COLUMNS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
    "totalTokens": "reported_total_tokens",
}


def event_facts(event: Object, stream: list[Run] | None) -> Facts:
    """The hot columns of an event whose text holds no lone surrogates."""
    data = event.get("data")
    if not isinstance(data, dict):
        return {}
    facts: Facts = {}
    turn, step = data.get("turn"), data.get("step")
    if is_int(turn):
        facts["turn"] = int(turn)
    if is_int(step):
        facts["step"] = int(step)
    of_type = _OF_TYPE.get(event["type"])
    if of_type is not None:
        of_type(facts, data)
    if stream is not None:
        _stream(facts, stream)
    return facts


def chunk_facts(kind: str, chunk: Object) -> Facts:
    """The hot columns of a chunk of that type that is no delta: usage, or how the stream finished."""
    facts: Facts = {}
    if kind == "usage":
        _usage(facts, chunk.get("usage"))
    elif kind == "finish":
        _finish(facts, chunk.get("reason"))
    return facts


def _texts(facts: Facts, data: Object, **columns: str) -> None:
    """Set each column to the member named, where that is a string."""
    for column, key in columns.items():
        value = data.get(key)
        if isinstance(value, str):
            facts[column] = value


def _ints(facts: Facts, data: Object, **columns: str) -> None:
    """Set each column to the member named, where that is a safe integer."""
    for column, key in columns.items():
        value = data.get(key)
        if is_int(value):
            facts[column] = int(value)


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _usage(facts: Facts, usage: Any) -> None:
    """The token columns; all NULL and the usage kept as text where one of its numbers is none."""
    if not isinstance(usage, dict):
        return
    numbers = {column: usage[key] for key, column in _USAGE_COLUMNS.items() if usage.get(key) is not None}
    if all(is_count(value) and value <= MOST_TOKENS for value in numbers.values()):
        facts.update((column, int(value)) for column, value in numbers.items())
    else:
        facts["invalid_usage"] = json.dumps(usage, separators=(",", ":"))


def _failure(facts: Facts, failure: Any) -> None:
    failure = _object(failure)
    _texts(facts, failure, error_code="code", error_message="message", error_request_id="requestId")
    _ints(facts, failure, error_status="status")


def _finish(facts: Facts, reason: Any) -> None:
    reason = _object(reason)
    _texts(facts, reason, finish_kind="kind")
    _failure(facts, reason.get("failure"))


def _stream(facts: Facts, stream: list[Run]) -> None:
    """What an embedded stream tells: its last usage (where the event has none), finish and times."""
    facts["chunk_count"] = sum(run.count for run in stream)
    if stream:
        facts["last_chunk_ms"] = stream[-1].last_time_ms
    tokens = [run for run in stream if run.first_token_ms is not None]
    if tokens:
        facts["first_token_ms"], facts["last_token_ms"] = tokens[0].first_token_ms, tokens[-1].last_time_ms
    last = {run.chunk_type: run.chunk for run in stream if run.chunk is not None}
    if "finish" in last:
        facts.update(chunk_facts("finish", last["finish"]))
    if "usage" in last and "usage_place" not in facts:
        facts.update(chunk_facts("usage", last["usage"]), usage_place="stream")


def _message(facts: Facts, message: Any) -> None:
    """Identity, source and content of a message."""
    message = _object(message)
    _texts(facts, message, message_id="id", role="role", call_id="toolCallId")
    source = _object(message.get("source"))
    _texts(facts, source, source_kind="kind", provider="provider", model="model")
    if len(source) > 1:
        for key in ("plugin", "name", "senderName", "senderSessionId"):
            if isinstance(source.get(key), str):
                facts["source_name"] = source[key]
                break
    content = message.get("content")
    if isinstance(content, list):
        _content(facts, [block for block in content if isinstance(block, dict)], len(content))
    if isinstance(message.get("isError"), bool):
        facts["is_error"] = message["isError"]


def _content(facts: Facts, blocks: list[Object], count: int) -> None:
    kinds = [block.get("type") for block in blocks]
    facts["content_block_count"] = count
    facts["reasoning_block_count"] = kinds.count("reasoning")
    facts["content_chars"] = _chars(blocks)
    if "tool-call" in kinds:
        calls = [block for block in blocks if block.get("type") == "tool-call"]
        facts["tool_call_ids"] = [str(block.get("id", "")) for block in calls]
        facts["tool_call_names"] = [str(block.get("name", "")) for block in calls]
        facts["tool_call_arguments"] = [_as_text(block.get("arguments", "")) for block in calls]
    if "tool-result" in kinds:
        for block in blocks:
            if block.get("type") == "tool-result":
                _texts(facts, block, call_id="toolCallId")
                facts["is_error"] = block.get("isError") is True


def _chars(blocks: list[Any]) -> int:
    """Characters in the text of content blocks, and in that of the blocks inside them."""
    count = 0
    for block in blocks:
        if isinstance(block, dict):
            text = block.get("text")
            if isinstance(text, str):
                count += len(text)
            elif isinstance(inner := block.get("content"), list):
                count += _chars(inner)
    return count


def _user_message(facts: Facts, data: Object) -> None:
    _message(facts, data)


def _model_message(facts: Facts, data: Object) -> None:
    _message(facts, data.get("message"))
    if data.get("usage") is not None:
        _usage(facts, data["usage"])
        facts["usage_place"] = "message"
    if data.get("interrupted") is True:
        facts["is_interrupted"] = True


def _tool_result(facts: Facts, data: Object) -> None:
    _message(facts, data.get("message"))
    facts.setdefault("is_error", False)
    error = _object(data.get("error"))
    _texts(facts, error, error_name="name", error_code="code", error_message="reason")


def _tool_call(facts: Facts, data: Object) -> None:
    _texts(facts, data, call_id="callId", tool_name="name", arguments="arguments")
    if "arguments" in facts:
        facts["arguments_is_json"] = _is_json(facts["arguments"])


def _dispatch(facts: Facts, data: Object) -> None:
    _texts(facts, data, call_id="subCallId", parent_call_id="parentCallId", tool_name="name", related_id="rootCallId")
    if "arguments" in data:
        facts["arguments"] = json.dumps(data["arguments"], separators=(",", ":"), ensure_ascii=False)
        facts["arguments_is_json"] = True
    content = data.get("content")
    if isinstance(content, list):
        facts["content_chars"] = _chars(content)
    if isinstance(data.get("isError"), bool):
        facts["is_error"] = data["isError"]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _is_json(text: str) -> bool:
    """Whether JavaScript would read the text as JSON."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            parse_leniently(data)
        except BadRecord:
            return False
    return True


def _turn_end(facts: Facts, data: Object) -> None:
    reason = _object(data.get("reason"))
    _texts(facts, reason, reason_kind="kind")
    _failure(facts, reason.get("error"))
    inner = reason.get("reason")
    if isinstance(inner, str):
        facts["reason_detail"] = inner
    elif isinstance(inner, dict):
        detail = inner.get("reason") if inner.get("kind") == "hook" else inner.get("kind")
        facts["reason_detail"] = detail if isinstance(detail, str) else None


def _request_header(facts: Facts, data: Object) -> None:
    _texts(facts, data, reason_kind="reason")
    _texts(facts, _object(_object(data.get("header")).get("config")), provider="provider", model="model")


def _request_context(facts: Facts, data: Object) -> None:
    _texts(facts, data, provider="provider", model="model")
    if is_count(data.get("contextWindow")):
        facts["context_window"] = int(data["contextWindow"])


def _retry(facts: Facts, data: Object) -> None:
    _texts(facts, data, related_id="retryId", provider="provider")
    _ints(facts, data, retry="retry")
    _float(facts, "delay_ms", data.get("delayMs"))
    _failure(facts, data.get("failure"))


def _compaction(facts: Facts, data: Object) -> None:
    _texts(facts, data, related_id="compactionId", provider="provider", model="model", outcome="error")
    _ints(facts, data, shadowed_token_count="shadowedTokenCount")
    if data.get("usage") is not None:
        _usage(facts, data["usage"])
        facts["usage_place"] = "compaction"


def _approval(facts: Facts, data: Object) -> None:
    _texts(facts, data, related_id="id", tool_name="toolName", call_id="callId")
    _texts(facts, data, outcome="outcome", reason_detail="reason")


def _inbox(facts: Facts, data: Object) -> None:
    _texts(facts, data, label="target", outcome="outcome")
    inserted = data.get("inserted")
    if isinstance(inserted, list):
        ids = [message.get("id") for message in inserted if isinstance(message, dict)]
        facts["inserted_ids"] = [message_id for message_id in ids if isinstance(message_id, str)]


def _hook(facts: Facts, data: Object) -> None:
    _texts(facts, data, related_id="handlerId", label="point", outcome="decision")
    _float(facts, "delay_ms", data.get("durationMs"))


def _command(facts: Facts, data: Object) -> None:
    _texts(facts, data, related_id="commandId", label="name", outcome="kind")


def _title(facts: Facts, data: Object) -> None:
    _texts(facts, data, label="title")
    _texts(facts, _object(data.get("source")), source_kind="kind", provider="provider")


def _title_request(facts: Facts, data: Object) -> None:
    _texts(facts, _object(data.get("route")), provider="provider", model="model")


def _search_request(facts: Facts, data: Object) -> None:
    _texts(facts, _object(data.get("body")), model="model")


def _label(key: str) -> Callable[[Facts, Object], None]:
    def take(facts: Facts, data: Object) -> None:
        _texts(facts, data, label=key)

    return take


def _agent(facts: Facts, data: Object) -> None:
    _texts(facts, data, child_id="childId", label="label", related_id="runId", outcome="outcome", provider="provider")


def _delivery(facts: Facts, data: Object) -> None:
    _texts(facts, data, child_id="sessionId")


def _job(facts: Facts, data: Object) -> None:
    _texts(facts, data, related_id="jobId", label="label", outcome="status")


def _selection(facts: Facts, data: Object) -> None:
    _texts(facts, data, provider="provider", model="model")


def _float(facts: Facts, column: str, value: Any) -> None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        facts[column] = float(value)


_OF_TYPE: dict[str, Callable[[Facts, Object], None]] = {
    "user/message": _user_message,
    "assistant/message": _model_message,
    "system/message": _model_message,
    "developer/message": _model_message,
    "tool/result": _tool_result,
    "tool/call": _tool_call,
    "tool/code-dispatch-start": _dispatch,
    "tool/code-dispatch": _dispatch,
    "tool/ptc-dispatch-start": _dispatch,
    "tool/ptc-dispatch": _dispatch,
    "turn/end": _turn_end,
    "request/header": _request_header,
    "request/context": _request_context,
    "llm/retry": _retry,
    "llm/retry-started": _retry,
    "compaction/start": _compaction,
    "compaction/summary": _compaction,
    "compaction/end": _compaction,
    "compaction/prune": _compaction,
    "approval/asked": _approval,
    "approval/decided": _approval,
    "approval/policy": _label("policy"),
    "agent/inbox/spliced": _inbox,
    "agent-preset/selected": _label("agentPreset"),
    "permission/preset": _label("preset"),
    "sandbox/mode": _label("mode"),
    "working-directory/change": _label("cwd"),
    "hook/invoked": _hook,
    "hook/result": _hook,
    "command/run": _command,
    "command/done": _command,
    "session/title": _title,
    "session/title-llm-request": _title_request,
    "web/deepseek-search-llm-request": _search_request,
    "model/selection": _selection,
    "subagent/catalog": _agent,
    "subagent/descriptor": _agent,
    "tool-workflow/run-start": _agent,
    "tool-workflow/agent-start": _agent,
    "tool-workflow/agent-end": _agent,
    "tool-workflow/run-end": _agent,
    "session-log-deepseek/delivery-accepted": _delivery,
    "job/registered": _job,
    "job/settled": _job,
}
