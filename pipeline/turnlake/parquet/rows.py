"""Records of one log -> rows of `events` and `chunk_runs`."""

from __future__ import annotations

from typing import Any

from turnlake.events.runs import ROW_TYPES, Run
from turnlake.events.scan import Record
from turnlake.events.values import Object, is_int
from turnlake.parquet.facts import chunk_facts, event_facts
from turnlake.parquet.payload import json_text, payload_of, scrubbed

Row = dict[str, Any]

_DELTA_KEYS = {
    "text-delta": {"type", "index", "text"},
    "reasoning-delta": {"type", "index", "text"},
    "tool-call-delta": {"type", "index", "id", "argumentsDelta"},
}


def event_row(record: Record, log_id: str) -> Row:
    """The row of a record that is no run."""
    event: Object = scrubbed(record.event) if record.is_odd else record.event
    payload = payload_of(record, event)
    row: Row = {
        "log_id": log_id,
        "branch": record.branch,
        "seq": record.seq,
        "line": record.line,
        "byte_offset": record.offset,
        "type": event["type"],
        "time_ms": record.time_ms,
        "payload": payload.text,
        "is_ignorable": event.get("ignorable") is True,
        "is_known_type": record.is_known,
        "is_provisional": record.is_provisional,
    }
    if payload.sql_text is not None:
        row["sql_payload"] = payload.sql_text
    if record.keep_line or not payload.is_exact:
        row["raw_line"] = line_text(record)
    if record.sources is not None:
        row["source_ranges"] = record.sources
    if "surfaceOp" in event:
        _surface(row, event["surfaceOp"])
    row.update(event_facts(event, record.stream))
    return row


def _surface(row: Row, op: Any) -> None:
    if isinstance(op, str):
        row["surface_op"] = op
    elif isinstance(op, dict):
        row["surface_op"] = op["op"] if isinstance(op.get("op"), str) else None
        for column, keys in (("replace_start_seq", ("startSeq", "start")), ("replace_end_seq", ("endSeq", "end"))):
            value = next((op[key] for key in keys if key in op), None)
            row[column] = value if is_int(value) else None


def line_text(record: Record) -> str:
    """The line as written; bytes that are no UTF-8 as U+FFFD."""
    return record.raw.decode("utf-8", "replace")


def run_row(record: Record, run: Run, log_id: str, ordinal: int | None = None) -> Row:
    """The row of a run: a record of its own, or the one at `ordinal` in the stream embedded in an event.

    dt and texts are not in it: they are kept flat, in columns of their own.
    """
    row: Row = {
        "log_id": log_id,
        "branch": record.branch,
        "seq": record.seq,
        "line": record.line,
        "byte_offset": record.offset,
        "form": "stream" if ordinal is not None else "packed" if run.chunk is None else "single",
        "turn": run.turn,
        "step": run.step,
        "chunk_type": run.chunk_type,
        "block_index": run.index,
        "chunk_count": run.count,
        "time_ms": run.time_ms,
        "last_time_ms": run.last_time_ms,
        "is_provisional": record.is_provisional,
    }
    if run.first_token_ms is not None:
        row["first_token_ms"] = run.first_token_ms
    if ordinal is not None:
        row["ordinal"] = ordinal
    if run.call_id is not None:
        row["call_id"] = run.call_id
        row["tool_name"] = run.tool_name
    if run.chunk is not None and not is_plain_delta(run):
        row["chunk"] = json_text(run.chunk)
        row.update(chunk_facts(run))
    if record.keep_line and ordinal is None:
        row["raw_line"] = line_text(record)
    return row


def is_plain_delta(run: Run) -> bool:
    """True for a lone delta that its columns give back: no member missing, none beside them."""
    chunk = run.chunk
    if chunk is None or run.chunk_type not in ROW_TYPES or run.texts is None or run.index is None:
        return False
    keys = _DELTA_KEYS[run.chunk_type]
    if run.chunk_type != "tool-call-delta":
        return chunk.keys() == keys
    return run.call_id is not None and chunk.keys() == (keys | {"name"} if run.tool_name is not None else keys)
