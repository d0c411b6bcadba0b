"""Records of one log -> rows of `events` and `chunk_runs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnlake.format.record import Record
from turnlake.format.runs import ROW_TYPES, Run
from turnlake.format.values import Object, is_int, scrubbed
from turnlake.rows.facts import Facts, chunk_facts, event_facts
from turnlake.rows.payload import json_text, payload_of, valid

# The columns that every row has, in the order of the tuples below; all others are rare.
EVENT_COLUMNS = (
    "log_id branch seq line byte_offset type time_ms payload is_ignorable is_known_type is_provisional turn step"
).split()
RUN_COLUMNS = (
    "log_id branch line byte_offset is_provisional form seq turn step chunk_type block_index chunk_count "
    "time_ms last_time_ms first_token_ms call_id tool_name chunk"
).split()
# Columns whose texts come as UTF-8, cut out of lines that are that already.
ENCODED_COLUMNS = ("payload", "sql_payload", "raw_line", "chunk")

_DELTA_KEYS = {
    "text-delta": {"type", "index", "text"},
    "reasoning-delta": {"type", "index", "text"},
    "tool-call-delta": {"type", "index", "id", "argumentsDelta"},
}


def event_row(record: Record, log_id: str) -> tuple[tuple[Any, ...], Facts]:
    """The row of a record that is no run: its EVENT_COLUMNS, and what else it has."""
    event: Object = scrubbed(record.event) if record.is_odd else record.event
    payload = payload_of(record, event)
    stream = record.stream
    if stream is not None and record.is_odd:
        stream = [scrubbed_run(run) for run in stream]
    facts = event_facts(event, stream)
    if payload.sql_text is not None:
        facts["sql_payload"] = payload.sql_text
    is_told = payload.is_exact and event.get("ignorable", True) is True and event["type"] == record.event["type"]
    if record.sources is not None:
        facts["source_ranges"] = record.sources
    elif "sourceEventSeqs" in event:
        is_told = False
    if "surfaceOp" in event:
        is_told &= _surface(facts, event["surfaceOp"])
    if record.keep_line or not is_told:
        facts["raw_line"] = line_text(record)
    if record.normalised_from is not None:
        facts["normalised_from"] = record.normalised_from
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


def _surface(facts: Facts, op: Any) -> bool:
    """The columns of a surfaceOp; False where it is not all in them."""
    if op == "append":
        facts["surface_op"] = "append"
        return True
    if not isinstance(op, dict) or op.get("op") != "replace":
        return False
    first, last = op.get("startSeq", op.get("start")), op.get("endSeq", op.get("end"))
    facts["surface_op"] = "replace"
    facts["replace_start_seq"] = first if is_int(first) else None
    facts["replace_end_seq"] = last if is_int(last) else None
    return True


def line_text(record: Record) -> bytes:
    """The line as written; bytes that are no UTF-8 as U+FFFD."""
    return valid(record.raw) if record.is_odd else record.raw


def run_row(record: Record, run: Run, log_id: str, ordinal: int | None = None) -> tuple[tuple[Any, ...], Facts]:
    """The row of a run: a record of its own, or the one at `ordinal` in the stream embedded in an event.

    Its RUN_COLUMNS, and what else it has but for dt and texts, which are kept flat in columns of their own.
    """
    facts: Facts = {}
    chunk, text = run.chunk, None
    if chunk is None:
        form = "packed"
    else:
        form = "single"
        if not _is_plain_delta(run, chunk):
            facts = chunk_facts(run.chunk_type, chunk)
            text = json_text(chunk)
    if ordinal is not None:
        form, facts["ordinal"] = "stream", ordinal
    elif record.keep_line:
        facts["raw_line"] = line_text(record)
    row = (
        log_id,
        record.branch,
        record.line,
        record.offset,
        record.is_provisional,
        form,
        record.seq,
        run.turn,
        run.step,
        run.chunk_type,
        run.index,
        run.count,
        run.time_ms,
        run.last_time_ms,
        run.first_token_ms,
        run.call_id,
        run.tool_name if run.call_id is not None else None,
        text,
    )
    return row, facts


def scrubbed_run(run: Run) -> Run:
    """The run with U+FFFD for every lone surrogate in its texts."""
    fields = ("chunk_type", "texts", "call_id", "tool_name", "chunk")
    return replace(run, **{name: scrubbed(getattr(run, name)) for name in fields})


def _is_plain_delta(run: Run, chunk: Object) -> bool:
    """True for a lone delta that its columns give back: no member missing, none beside them."""
    if run.chunk_type not in ROW_TYPES or run.texts is None or run.index is None:
        return False
    keys = _DELTA_KEYS[run.chunk_type]
    if run.chunk_type != "tool-call-delta":
        return chunk.keys() == keys
    return run.call_id is not None and chunk.keys() == (keys | {"name"} if run.tool_name is not None else keys)
