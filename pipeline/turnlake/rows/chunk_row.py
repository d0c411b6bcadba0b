"""A line of stream chunks (v0 and v1) -> its row in `chunk_runs`."""

from __future__ import annotations

from typing import Any

from turnlake.format.records import ChunkLine
from turnlake.format.values import scrubbed
from turnlake.rows.event_row import FINISH, RARE, USAGE, Facts, Row, finish_columns, usage_columns
from turnlake.rows.payload import chunk_payload, line_text

BASE = (
    "log_id branch line byte_offset is_provisional form seq turn step chunk_type block_index chunk_count "
    "time_ms last_time_ms first_token_ms call_id tool_name payload"
).split()
LAYOUTS: dict[str, tuple[str, ...]] = {
    "delta": (*BASE, RARE),
    "usage": (*BASE, *USAGE, RARE),
    "finish": (*BASE, *FINISH, RARE),
}


def chunk_row(record: ChunkLine, log_id: str) -> tuple[str, Row]:
    """The row of a line of chunks: the name of its layout, and its columns in that order."""
    chunk, kind, call_id, tool_name = record.chunk, record.chunk_type, record.call_id, record.tool_name
    facts: Facts | None = None
    if not record.is_plain:
        facts = {"raw_line": line_text(record)}
        if record.is_odd:
            kind, call_id, tool_name, chunk = (scrubbed(value) for value in (kind, call_id, tool_name, chunk))
    layout: str = "delta"
    columns: tuple[Any, ...] = ()
    if chunk is not None and kind == "usage":
        layout = "usage"
        columns, invalid = usage_columns(chunk.get("usage"))
        if invalid is not None:
            facts = {"invalid_usage": invalid} | (facts or {})
    elif chunk is not None and kind == "finish":
        layout, columns = "finish", finish_columns(chunk.get("reason"))
    row = (
        log_id,
        record.branch,
        record.line,
        record.offset,
        record.is_provisional,
        "packed" if chunk is None else "single",
        record.seq,
        record.turn,
        record.step,
        kind,
        record.index,
        record.count,
        record.time_ms,
        record.last_time_ms,
        record.first_token_ms,
        call_id,
        tool_name,
        chunk_payload(record),
        *columns,
        facts,
    )
    return layout, row
