"""The lines of a log out of a lake of format 1, which kept the records of embedded streams as rows of `chunk_runs`.

Needed for logs that are gone: whoever still has a log reads it anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq

from turnlake.format.chunks import ROW_TYPES
from turnlake.format.source_seqs import expand
from turnlake.format.values import Object
from turnlake.rows.payload import json_text
from turnlake.rows.stored import Row, parse, runs_of_log
from turnlake.sources.lines import Line

_PLACE = ("line", "byte_offset", "is_provisional", "raw_line", "seq", "time_ms")
_LINE_OF_EVENT = (
    *_PLACE,
    *("type", "payload", "is_ignorable", "normalised_from"),
    *("source_ranges", "surface_op", "replace_start_seq", "replace_end_seq"),
)
_LINE_OF_RUN = (
    *_PLACE,
    *("form", "ordinal", "turn", "step", "block_index", "dt"),
    *("chunk_type", "texts", "call_id", "tool_name", "chunk"),
)


def is_format1(part: Path) -> bool:
    """Whether a part of `chunk_runs` was written by a turnlake of lake format 1."""
    with pq.ParquetFile(part) as file:
        return "texts" in file.schema_arrow.names


def stored_lines(log: Row, events: Iterable[Path], runs: Sequence[Path], version: int) -> Iterator[Line]:
    """As `replay.stored_lines`."""
    log_id = log["log_id"]
    rows = [*runs_of_log(events, log_id, _LINE_OF_EVENT), *runs_of_log(runs, log_id, _LINE_OF_RUN)]
    if log["header"] is not None:
        yield Line(1, 0, log["header"].encode(), False)
    for number, of_line in groupby(heapq.merge(*rows, key=_line_number), key=_line_number):
        streams: list[Row] = []
        own: list[Row] = []
        for row in of_line:
            (streams if row.get("form") == "stream" else own).append(row)
        [row] = own
        content = _content(row, streams, version)
        yield Line(number, row["byte_offset"], content, row["is_provisional"], row["raw_line"] is not None)


def _line_number(row: Row) -> int:
    number: int = row["line"]
    return number


def _content(row: Row, streams: list[Row], version: int) -> bytes:
    if row["raw_line"] is not None:
        raw: str = row["raw_line"]
        return raw.encode()
    return json_text(_chunk_line(row) if "form" in row else _event(row, streams, version))


def _chunk_line(row: Row) -> Object:
    place = {"turn": row["turn"], "step": row["step"]}
    if row["dt"] is None:
        return {
            "type": "assistant/chunk",
            "seq": row["seq"],
            "time": row["time_ms"],
            "data": place | {"chunk": _chunk(row)},
        }
    data = place | {"index": row["block_index"], "dt": row["dt"]} | _texts(row)
    return {"type": ROW_TYPES[row["chunk_type"]], "seq0": row["seq"], "time0": row["time_ms"], "data": data}


def _texts(row: Row) -> Object:
    """The members of a packed row or stream record besides times and block."""
    if row["chunk_type"] != "tool-call-delta":
        return {"texts": row["texts"]}
    name = {} if row["tool_name"] is None else {"name": row["tool_name"]}
    return {"id": row["call_id"], **name, "args": row["texts"]}


def _chunk(row: Row) -> Object:
    if row["chunk"] is not None:
        chunk: Object = parse(row["chunk"])
        return chunk
    [text] = row["texts"]
    delta = {"type": row["chunk_type"], "index": row["block_index"]}
    if row["chunk_type"] != "tool-call-delta":
        return delta | {"text": text}
    name = {} if row["tool_name"] is None else {"name": row["tool_name"]}
    return delta | {"id": row["call_id"], **name, "argumentsDelta": text}


def _stream_record(row: Row) -> Object:
    if row["dt"] is None:
        return {"type": "chunk", "time": row["time_ms"], "chunk": _chunk(row)}
    record = {"type": ROW_TYPES[row["chunk_type"]], "time0": row["time_ms"], "index": row["block_index"]}
    return record | {"dt": row["dt"]} | _texts(row)


def _event(row: Row, streams: list[Row], version: int) -> Object:
    event: Object = {"type": row["type"], "seq": row["seq"], "time": row["time_ms"], "data": parse(row["payload"])}
    if streams and event["data"]["stream"] == []:
        records = sorted(streams, key=lambda record: int(record["ordinal"]))
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
    return event
