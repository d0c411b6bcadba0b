"""Records of one log -> rows of `events` and `chunk_runs`."""

from __future__ import annotations

from typing import Any

from turnlake.events.runs import ROW_TYPES, Run
from turnlake.events.scan import Record
from turnlake.events.values import Object, is_int
from turnlake.parquet.facts import Facts, chunk_facts, event_facts
from turnlake.parquet.payload import json_text, payload_of, scrubbed

# The columns that every row has, in the order of the tuples below; all others are rare.
EVENT_COLUMNS = (
    "log_id branch seq line byte_offset type time_ms payload is_ignorable is_known_type is_provisional turn step"
).split()
RUN_COLUMNS = (
    "log_id branch seq line byte_offset form turn step chunk_type block_index chunk_count time_ms last_time_ms "
    "first_token_ms is_provisional"
).split()

_DELTA_KEYS = {
    "text-delta": {"type", "index", "text"},
    "reasoning-delta": {"type", "index", "text"},
    "tool-call-delta": {"type", "index", "id", "argumentsDelta"},
}


def event_row(record: Record, log_id: str) -> tuple[tuple[Any, ...], Facts]:
    """The row of a record that is no run: its EVENT_COLUMNS, and what else it has."""
    event: Object = scrubbed(record.event) if record.is_odd else record.event
    payload = payload_of(record, event)
    facts = event_facts(event, record.stream)
    if payload.sql_text is not None:
        facts["sql_payload"] = payload.sql_text
    if record.keep_line or not payload.is_exact:
        facts["raw_line"] = line_text(record)
    if record.sources is not None:
        facts["source_ranges"] = record.sources
    if "surfaceOp" in event:
        _surface(facts, event["surfaceOp"])
    row = (
        log_id,
        record.branch,
        record.seq,
        record.line,
        record.offset,
        event["type"],
        record.time_ms,
        payload.text,
        event.get("ignorable") is True,
        record.is_known,
        record.is_provisional,
        facts.pop("turn", None),
        facts.pop("step", None),
    )
    return row, facts


def _surface(facts: Facts, op: Any) -> None:
    if isinstance(op, str):
        facts["surface_op"] = op
    elif isinstance(op, dict):
        facts["surface_op"] = op["op"] if isinstance(op.get("op"), str) else None
        for column, keys in (("replace_start_seq", ("startSeq", "start")), ("replace_end_seq", ("endSeq", "end"))):
            value = next((op[key] for key in keys if key in op), None)
            facts[column] = value if is_int(value) else None


def line_text(record: Record) -> str:
    """The line as written; bytes that are no UTF-8 as U+FFFD."""
    return record.raw.decode("utf-8", "replace")


def run_row(record: Record, run: Run, log_id: str, ordinal: int | None = None) -> tuple[tuple[Any, ...], Facts]:
    """The row of a run: a record of its own, or the one at `ordinal` in the stream embedded in an event.

    Its RUN_COLUMNS, and what else it has but for dt and texts, which are kept flat in columns of their own.
    """
    facts: Facts = {}
    chunk = run.chunk
    if chunk is None:
        form = "packed"
    else:
        form = "single"
        if not _is_plain_delta(run, chunk):
            facts = chunk_facts(run)
            facts["chunk"] = json_text(chunk)
    if ordinal is not None:
        form, facts["ordinal"] = "stream", ordinal
    elif record.keep_line:
        facts["raw_line"] = line_text(record)
    if run.call_id is not None:
        facts["call_id"], facts["tool_name"] = run.call_id, run.tool_name
    row = (
        log_id,
        record.branch,
        record.seq,
        record.line,
        record.offset,
        form,
        run.turn,
        run.step,
        run.chunk_type,
        run.index,
        run.count,
        run.time_ms,
        run.last_time_ms,
        run.first_token_ms,
        record.is_provisional,
    )
    return row, facts


def _is_plain_delta(run: Run, chunk: Object) -> bool:
    """True for a lone delta that its columns give back: no member missing, none beside them."""
    if run.chunk_type not in ROW_TYPES or run.texts is None or run.index is None:
        return False
    keys = _DELTA_KEYS[run.chunk_type]
    if run.chunk_type != "tool-call-delta":
        return chunk.keys() == keys
    return run.call_id is not None and chunk.keys() == (keys | {"name"} if run.tool_name is not None else keys)
