"""Parquet -> the log again: its logical events as `read_log` gives them, and its lines as far as rows tell them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.format.runs import PACKED_TYPES, ROW_TYPES, Run, packed_run
from turnlake.format.sources import expand
from turnlake.format.values import Object, parse_leniently
from turnlake.format.vocabulary import NEWEST_VERSION, SURFACE_TYPES
from turnlake.rows.payload import json_text
from turnlake.sources.lines import Line

Row = dict[str, Any]

# What tells a line again.
_PLACE = ("line", "byte_offset", "is_provisional", "raw_line", "seq", "time_ms")
_LINE_OF_EVENT = (
    *_PLACE,
    *("type", "payload", "is_ignorable", "normalised_from"),
    *("source_ranges", "surface_op", "replace_start_seq", "replace_end_seq"),
)
_LINE_OF_RUN = (
    *_PLACE,
    *("form", "ordinal", "turn", "step", "last_time_ms", "block_index", "dt"),
    *("chunk_type", "texts", "call_id", "tool_name", "chunk"),
)
_ROWS_AT_A_TIME = 1000


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
            yield _event(row, streams.get(row["line"], []), _version(log))


def stored_lines(log: Row, events: Iterable[Path], runs: Iterable[Path]) -> Iterator[Line]:
    """Each line of a log that has a row in these parts of `events` and `chunk_runs`, the header first.

    A line is as it was written, or as the harness would have written the same.
    """
    tables = [_sorted_rows(events, log["log_id"], _LINE_OF_EVENT), _sorted_rows(runs, log["log_id"], _LINE_OF_RUN)]
    return _lines(log, heapq.merge(*map(_dicts, tables), key=_line_number))


def _sorted_rows(parts: Iterable[Path], log_id: str, columns: Sequence[str]) -> pa.Table:
    """The rows of one log in order of lines, in Arrow: as dicts those of a long log would take ten times as much."""
    pieces = [piece for part in parts for piece in _rows_in(part, log_id, list(columns))]
    rows = pa.concat_tables(pieces)
    # Parts follow each other as the log grew, so that there is seldom anything to sort.
    is_sorted = all(line <= following for line, following in pairwise(rows["line"].to_pylist()))
    return rows if is_sorted else rows.sort_by("line")


def _rows_in(part: Path, log_id: str, columns: list[str]) -> Iterator[pa.Table]:
    """The rows of one log in a part; what has none of them is read no further than to know."""
    with pq.ParquetFile(part) as file:
        yield file.read_row_groups([], columns=columns)
        for number in range(file.num_row_groups):
            places = runs_of_logs(file.read_row_group(number, columns=["log_id"]), lambda one: one == log_id)
            if places:
                yield slices(file.read_row_group(number, columns=columns), places)


def runs_of_logs(rows: pa.Table, is_wanted: Callable[[str | None], bool]) -> list[tuple[int, int]]:
    """Where the rows of the wanted logs are: first row and count of each run of them.

    The rows of a log lie together, so runs are few. PyArrow's filters would do the same, and take a tenth of a second
    to import.
    """
    runs: list[tuple[int, int]] = []
    start = 0
    for log_id, run in groupby(rows["log_id"].to_pylist()):
        count = sum(1 for _ in run)
        if is_wanted(log_id):
            runs.append((start, count))
        start += count
    return runs


def slices(rows: pa.Table, runs: Iterable[tuple[int, int]]) -> pa.Table:
    """These runs of rows, in their order, each column in one piece."""
    return pa.concat_tables([rows.slice(0, 0), *(rows.slice(start, count) for start, count in runs)]).combine_chunks()


def _dicts(rows: pa.Table) -> Iterator[Row]:
    for batch in rows.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        yield from batch.to_pylist()


def _lines(log: Row, rows: Iterable[Row]) -> Iterator[Line]:
    if log["header"] is not None:
        yield Line(1, 0, log["header"].encode(), False)
    for number, of_line in groupby(rows, key=_line_number):
        streams: list[Row] = []
        own: list[Row] = []
        for row in of_line:
            (streams if row.get("form") == "stream" else own).append(row)
        [row] = own
        if row["raw_line"] is not None:
            content = row["raw_line"].encode()
        elif "form" in row:
            content = json_text(_run_line(row))
        else:
            content = json_text(_event(row, streams, _version(log)))
        yield Line(number, row["byte_offset"], content, row["is_provisional"])


def _version(log: Row) -> int:
    """The version the log was read by: that of its name where the header states none, as `Scan` has it."""
    version = log.get("format_version")
    if version is None and log.get("header") is not None:
        version = min(log.get("generation") or 0, NEWEST_VERSION)
    return version or 0


def _line_number(row: Row) -> int:
    number: int = row["line"]
    return number


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
        keeps_op = "surfaceOp" in line and row["type"] in SURFACE_TYPES[0]
        return event | {"surfaceOp": line["surfaceOp"]} if keeps_op else event
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
