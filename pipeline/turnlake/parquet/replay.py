"""Parquet -> the log again: its logical events as `read_log` gives them, and its lines as far as rows tell them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from turnlake.events.runs import PACKED_TYPES, ROW_TYPES, Run, packed_run
from turnlake.events.sources import expand
from turnlake.events.values import Object, parse_leniently
from turnlake.logs.lines import Line
from turnlake.parquet.payload import json_text

Row = dict[str, Any]


def stored_rows(parts: Iterable[Path], log_id: str) -> list[Row]:
    """The rows of one log in the parts of a table, in the order they were written."""
    found: list[Row] = []
    for part in parts:
        found += pq.read_table(part, filters=[("log_id", "=", log_id)]).to_pylist()
    return found


def stored_events(log: Row, events: Sequence[Row], runs: Sequence[Row]) -> Iterator[Object]:
    """The logical events in these rows of a log, in order of lines; chunks are expanded.

    `log` is its row of `logs`, `events` and `runs` its rows of `events` and `chunk_runs`.
    """
    streams = _streams(runs)
    own_lines = [row for row in runs if row["form"] != "stream"]
    for row in sorted([*events, *own_lines], key=lambda row: row["line"]):
        if "form" in row:
            yield from _chunk_events(row)
        else:
            yield _event(row, streams.get(row["line"], []), log.get("format_version") or 0)


def stored_lines(log: Row, events: Sequence[Row], runs: Sequence[Row]) -> Iterator[Line]:
    """Each line that has a row, the header first.

    A line is as it was written, or as the harness would have written the same.
    """
    if log["header"] is not None:
        yield Line(1, 0, log["header"].encode(), False)
    streams = _streams(runs)
    own_lines = [row for row in runs if row["form"] != "stream"]
    for row in sorted([*events, *own_lines], key=lambda row: row["line"]):
        if row["raw_line"] is not None:
            content = row["raw_line"].encode()
        elif "form" in row:
            content = json_text(_run_line(row))
        else:
            content = json_text(_event(row, streams.get(row["line"], []), log["format_version"] or 0))
        yield Line(row["line"], row["byte_offset"], content, row["is_provisional"])


def _run_line(row: Row) -> Object:
    run = _run(row)
    if run.dt is None:
        [(time, chunk)] = run.chunks()
        data = {"turn": row["turn"], "step": row["step"], "chunk": chunk}
        return {"type": "assistant/chunk", "seq": row["seq"], "time": time, "data": data}
    data = {"turn": row["turn"], "step": row["step"], "index": run.index, "dt": run.dt}
    if run.chunk_type == "tool-call-delta":
        data |= {"id": run.call_id, "args": run.texts} | ({} if run.tool_name is None else {"name": run.tool_name})
    else:
        data |= {"texts": run.texts}
    return {"type": ROW_TYPES[run.chunk_type], "seq0": row["seq"], "time0": row["time_ms"], "data": data}


def _streams(runs: Iterable[Row]) -> dict[int, list[Row]]:
    """The rows of embedded streams by the line of their event."""
    streams: dict[int, list[Row]] = {}
    for row in runs:
        if row["form"] == "stream":
            streams.setdefault(row["line"], []).append(row)
    return streams


def _event(row: Row, stream: list[Row], version: int) -> Object:
    event: Object = {"type": row["type"], "seq": row["seq"], "time": row["time_ms"], "data": _parse(row["payload"])}
    if stream and event["data"]["stream"] == []:
        records = sorted(stream, key=lambda record: record["ordinal"])
        event["data"]["stream"] = [_stream_record(record) for record in records]
    if row["source_ranges"] is not None:
        event["sourceEventSeqs"] = expand(row["source_ranges"])
    if row["surface_op"] == "append":
        event["surfaceOp"] = "append"
    elif row["surface_op"] is not None:
        first, last = ("start", "end") if version < 3 else ("startSeq", "endSeq")
        event["surfaceOp"] = {"op": row["surface_op"], first: row["replace_start_seq"], last: row["replace_end_seq"]}
    if row["is_ignorable"]:
        event["ignorable"] = True
    return event if row["raw_line"] is None else _as_written(row, event)


def _as_written(row: Row, event: Object) -> Object:
    """The line as written, with what was normalised in it: members that have no column are there too."""
    line: Object = _parse(row["raw_line"])
    if row["normalised_from"] == "tutorial":
        return event | {"surfaceOp": line["surfaceOp"]} if "surfaceOp" in line else event
    known = ("type", "data") if row["normalised_from"] else ()
    sources = ("sourceEventSeqs",) if row["source_ranges"] is not None else ()
    return line | {name: event[name] for name in (*known, *sources)}


def _chunk_events(row: Row) -> Iterator[Object]:
    """The assistant/chunk events of a run with a line of its own."""
    run = _run(row)
    if row["raw_line"] is not None:
        line = _parse(row["raw_line"])
        if line["type"] not in PACKED_TYPES:
            yield line
            return
        run = packed_run(line, row["raw_line"].encode("utf-8", "replace"))
    for seq, (time, chunk) in enumerate(run.chunks(), row["seq"]):
        data = {"turn": row["turn"], "step": row["step"], "chunk": chunk}
        yield {"type": "assistant/chunk", "seq": seq, "time": time, "data": data}


def _run(row: Row) -> Run:
    return Run(
        chunk_type=row["chunk_type"],
        time_ms=row["time_ms"],
        last_time_ms=row["last_time_ms"],
        index=row["block_index"],
        dt=row["dt"],
        texts=row["texts"],
        call_id=row["call_id"],
        tool_name=row["tool_name"],
        chunk=None if row["chunk"] is None else _parse(row["chunk"]),
    )


def _stream_record(row: Row) -> Object:
    """A record of an embedded stream as it was written (spec 4.4)."""
    run = _run(row)
    if run.dt is None:
        [(time, chunk)] = run.chunks()
        return {"type": "chunk", "time": time, "chunk": chunk}
    record = {"type": ROW_TYPES[run.chunk_type], "time0": run.time_ms, "index": run.index, "dt": run.dt}
    if run.chunk_type != "tool-call-delta":
        return record | {"texts": run.texts}
    name = {} if run.tool_name is None else {"name": run.tool_name}
    return record | {"id": run.call_id, "args": run.texts} | name


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return parse_leniently(text.encode("utf-8", "surrogatepass"))
