"""An event -> its row in `events`: columns of every row, those of its layout, and rare ones by name.

The hot columns are what the models need of an event, taken while the parsed object is at hand. Nothing here raises on
odd payloads: what is not of the right type is NULL in its column, and the payload keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson

from turnlake.format.chunks import StreamSummary
from turnlake.format.records import EventLine
from turnlake.format.values import BadRecord, Object, int_or_none, is_count, is_int, parse_leniently, scrubbed
from turnlake.rows.payload import line_text, payload_of

Row = tuple[Any, ...]
Facts = dict[str, Any]

# A number above this is no number of tokens, and sums of such would not fit into 64 bits.
MOST_TOKENS = 2**40

BASE = (
    "log_id branch seq line byte_offset type time_ms payload stream is_ignorable is_known_type is_provisional "
    "turn step surface_op source_ranges"
).split()
USAGE = "input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens reported_total_tokens".split()
FINISH = "finish_kind error_code error_message error_status error_request_id".split()
MESSAGE = (
    "message_id role source_kind source_name call_id provider model is_error "
    "content_block_count reasoning_block_count content_chars"
).split()
ANSWER = (
    "usage_place tool_call_ids tool_call_names tool_call_arguments is_interrupted "
    "chunk_count last_chunk_ms first_token_ms last_token_ms"
).split()
# The layouts of rows: their columns in order. The last one, RARE, holds a mapping of further columns, or None.
RARE = "*"
LAYOUTS: dict[str, tuple[str, ...]] = {
    "bare": (*BASE, RARE),
    "message": (*BASE, *MESSAGE, RARE),
    "answer": (*BASE, *MESSAGE, *USAGE, *FINISH, *ANSWER, RARE),
    "call": (*BASE, "call_id", "tool_name", "arguments", "arguments_is_json", RARE),
}
_USAGE_MEMBERS = (
    "inputTokens",
    "outputTokens",
    "cacheReadTokens",
    "cacheWriteTokens",
    "reasoningTokens",
    "totalTokens",
)
_NO_USAGE = (None,) * len(USAGE)
_NO_FINISH = (None,) * len(FINISH)
_NO_MESSAGE = (None,) * len(MESSAGE)
_NOTHING: Object = {}


def event_row(record: EventLine, log_id: str) -> tuple[str, Row]:
    """The row of an event: the name of its layout, and its columns in that order."""
    event = record.event
    payload = payload_of(record)
    if record.is_odd:
        event = scrubbed(event)
    kind, data, facts = event["type"], event.get("data"), None
    layout, turn, step, columns = "bare", None, None, ()
    if isinstance(data, dict):
        turn, step = int_or_none(data.get("turn")), int_or_none(data.get("step"))
        take = _LAYOUT_OF.get(kind)
        if take is not None:
            layout, of_type = take
            columns, facts = of_type(data, record.stream)
        elif kind in _RARE_OF:
            facts = {}
            _RARE_OF[kind](facts, data)
    op = event.get("surfaceOp")
    if not record.is_plain or op not in (None, "append") or payload.sql_text is not None:
        facts = {} if facts is None else facts
        _odd_columns(facts, record, payload.sql_text, op)
    row = (
        log_id,
        record.branch,
        record.seq,
        record.line,
        record.offset,
        kind,
        record.time_ms,
        payload.text,
        payload.stream,
        event.get("ignorable") is True,
        record.is_known,
        record.is_provisional,
        turn,
        step,
        op if op is None or op == "append" else None,
        record.sources,
        *columns,
        facts,
    )
    return layout, row


def _odd_columns(facts: Facts, record: EventLine, sql_text: bytes | None, op: Any) -> None:
    """The columns of what is rare: a replacement, and a line that is not written as the harness writes it."""
    if isinstance(op, dict) and op.get("op") == "replace":
        facts["surface_op"] = "replace"
        facts["replace_start_seq"] = int_or_none(op.get("startSeq", op.get("start")))
        facts["replace_end_seq"] = int_or_none(op.get("endSeq", op.get("end")))
    if not record.is_plain:
        facts["raw_line"] = line_text(record)
        facts["normalised_from"] = record.normalised_from
        facts["sql_payload"] = sql_text


# Members of the right type, else None


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else _NOTHING


def usage_columns(usage: Any) -> tuple[Row, str | None]:
    """The USAGE columns of a usage, and its JSON where one of its numbers is none: then they are NULL."""
    if not isinstance(usage, dict):
        return _NO_USAGE, None
    numbers = tuple(map(usage.get, _USAGE_MEMBERS))
    for number in numbers:
        if number is not None and not (type(number) is int and 0 <= number <= MOST_TOKENS):
            break
    else:
        return numbers, None
    if all(number is None or (is_count(number) and number <= MOST_TOKENS) for number in numbers):
        return tuple(None if number is None else int(number) for number in numbers), None
    return _NO_USAGE, json.dumps(usage, separators=(",", ":"))


def finish_columns(reason: Any) -> Row:
    """The FINISH columns of a stream's finish."""
    reason = _object(reason)
    failure = _object(reason.get("failure"))
    return (
        _text(reason.get("kind")),
        _text(failure.get("code")),
        _text(failure.get("message")),
        int_or_none(failure.get("status")),
        _text(failure.get("requestId")),
    )


# Events that own a message, model calls and tool calls: a tuple of the columns of their layout, and rare ones


def _message_columns(message: Any, is_error: bool | None = None) -> tuple[Row, list[Object], list[Any]]:
    """The MESSAGE columns, the blocks of the content, and their types."""
    message = _object(message)
    get = message.get
    source, content = _object(get("source")), get("content")
    call_id, source_name = _text(get("toolCallId")), None
    if isinstance(get("isError"), bool):
        is_error = get("isError")
    if len(source) > 1:
        for key in ("plugin", "name", "senderName", "senderSessionId"):
            if type(source.get(key)) is str:
                source_name = source[key]
                break
    blocks: list[Object] = []
    kinds: list[Any] = []
    counts: Row = (None, None, None)
    if isinstance(content, list):
        blocks = [block for block in content if isinstance(block, dict)]
        kinds = [block.get("type") for block in blocks]
        counts = (len(content), kinds.count("reasoning"), _chars(blocks))
        if "tool-result" in kinds:
            for block in blocks:
                if block.get("type") == "tool-result":
                    named = block.get("toolCallId")
                    call_id = named if type(named) is str else call_id
                    is_error = block.get("isError") is True
    columns = (
        *(_text(get("id")), _text(get("role")), _text(source.get("kind")), source_name, call_id),
        *(_text(source.get("provider")), _text(source.get("model")), is_error, *counts),
    )
    return columns, blocks, kinds


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


def _user_message(data: Object, stream: StreamSummary | None) -> tuple[Row, Facts | None]:
    columns, blocks, kinds = _message_columns(data)
    return columns, _calls_by_name(blocks) if "tool-call" in kinds else None


def _tool_result(data: Object, stream: StreamSummary | None) -> tuple[Row, Facts | None]:
    columns, blocks, kinds = _message_columns(data.get("message"), False)
    facts = _calls_by_name(blocks) if "tool-call" in kinds else None
    if isinstance(error := data.get("error"), dict):
        facts = {} if facts is None else facts
        _texts(facts, error, error_name="name", error_code="code", error_message="reason")
    return columns, facts


def _calls_by_name(blocks: list[Object]) -> Facts:
    ids, names, arguments = _calls(blocks)
    return {"tool_call_ids": ids, "tool_call_names": names, "tool_call_arguments": arguments}


def _calls(blocks: list[Object]) -> tuple[list[str], list[str], list[str]]:
    """Ids, names and arguments of the tool-call blocks."""
    calls = [block for block in blocks if block.get("type") == "tool-call"]
    return (
        [str(block.get("id", "")) for block in calls],
        [str(block.get("name", "")) for block in calls],
        [_as_text(block.get("arguments", "")) for block in calls],
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _answer(data: Object, stream: StreamSummary | None) -> tuple[Row, Facts | None]:
    """A message of the model, the system or the developer."""
    message, blocks, kinds = _message_columns(data.get("message"))
    calls = _calls(blocks) if "tool-call" in kinds else (None, None, None)
    return _with_stream(message, data.get("usage"), calls, data.get("interrupted") is True or None, stream)


def _attempt(data: Object, stream: StreamSummary | None) -> tuple[Row, Facts | None]:
    return _with_stream(_NO_MESSAGE, None, (None, None, None), None, stream)


def _with_stream(
    message: Row, usage: Any, calls: Row, is_interrupted: bool | None, stream: StreamSummary | None
) -> tuple[Row, Facts | None]:
    """The columns of a model call; what the event does not state is told by its stream."""
    place = None if usage is None else "message"
    finish: Row = _NO_FINISH
    times: Row = (None, None, None, None)
    if stream is not None:
        times = (stream.chunk_count, stream.last_chunk_ms, stream.first_token_ms, stream.last_token_ms)
        if stream.finish is not None:
            finish = finish_columns(stream.finish.get("reason"))
        if stream.usage is not None and place is None:
            usage, place = stream.usage.get("usage"), "stream"
    tokens, invalid = usage_columns(usage)
    facts = None if invalid is None else {"invalid_usage": invalid}
    return (*message, *tokens, *finish, place, *calls, is_interrupted, *times), facts


def _tool_call(data: Object, stream: StreamSummary | None) -> tuple[Row, Facts | None]:
    arguments = _text(data.get("arguments"))
    is_json = None if arguments is None else _is_json(arguments)
    return (_text(data.get("callId")), _text(data.get("name")), arguments, is_json), None


def _is_json(text: str) -> bool:
    """Whether JavaScript would read the text as JSON."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            parse_leniently(text.encode("utf-8", "surrogatepass"))
        except BadRecord:
            return False
    return True


_LAYOUT_OF: dict[str, tuple[str, Callable[[Object, StreamSummary | None], tuple[Row, Facts | None]]]] = {
    "user/message": ("message", _user_message),
    "tool/result": ("message", _tool_result),
    "assistant/message": ("answer", _answer),
    "assistant/attempt": ("answer", _attempt),
    "system/message": ("answer", _answer),
    "developer/message": ("answer", _answer),
    "tool/call": ("call", _tool_call),
}


# All other events: columns by name


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


def _usage(facts: Facts, usage: Any) -> None:
    """The token columns; all NULL and the usage kept as text where one of its numbers is none."""
    tokens, invalid = usage_columns(usage)
    facts.update(zip(USAGE, tokens, strict=True))
    facts["invalid_usage"] = invalid


def _failure(facts: Facts, failure: Any) -> None:
    failure = _object(failure)
    _texts(facts, failure, error_code="code", error_message="message", error_request_id="requestId")
    _ints(facts, failure, error_status="status")


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


_RARE_OF: dict[str, Callable[[Facts, Object], None]] = {
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
