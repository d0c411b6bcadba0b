"""Parquet -> the log again: its logical events as `read_log` gives them, and its lines as far as rows hold them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from turnlake.format.chunks import PACKED_TYPES, ROW_TYPES, delta_of
from turnlake.format.source_seqs import expand
from turnlake.format.types import MESSAGE_TYPES, NEWEST_VERSION
from turnlake.format.values import Object
from turnlake.rows import replay_format1
from turnlake.rows.payload import json_text
from turnlake.rows.stored import parse, runs_of_log
from turnlake.sources.lines import Line

Row = dict[str, Any]

# What gives a line back.
_PLACE = ("line", "byte_offset", "is_provisional", "raw_line", "seq", "time_ms", "payload")
LINE_OF_EVENT = (
    *_PLACE,
    *("type", "stream", "is_ignorable", "normalised_from"),
    *("source_ranges", "surface_op", "replace_start_seq", "replace_end_seq"),
)
LINE_OF_CHUNKS = (*_PLACE, "form", "chunk_type")


def stored_events(log: Row, events: Sequence[Row], runs: Sequence[Row]) -> Iterator[Object]:
    """The logical events in these rows of a log, in order of lines; chunks are expanded.

    `log` is its row of `logs`, `events` and `runs` its rows of `events` and `chunk_runs`.
    """
    for row in sorted([*events, *runs], key=_line_number):
        if "form" in row:
            yield from _chunk_events(row)
        else:
            yield _event(row, read_version(log))


def stored_lines(log: Row, events: Iterable[Path], runs: Iterable[Path]) -> Iterator[Line]:
    """Each line of a log that has a row in these parts of `events` and `chunk_runs`, the header first.

    A line is as it was written, or as the harness would have written the same.
    """
    parts = list(runs)
    if any(replay_format1.is_format1(part) for part in parts):
        yield from replay_format1.stored_lines(log, events, parts, read_version(log))
        return
    if log["header"] is not None:
        yield Line(1, 0, log["header"].encode(), False)
    version = read_version(log)
    log_id = log["log_id"]
    rows = [*runs_of_log(events, log_id, LINE_OF_EVENT), *runs_of_log(parts, log_id, LINE_OF_CHUNKS)]
    for row in heapq.merge(*rows, key=_line_number):
        if row["raw_line"] is not None:
            content = row["raw_line"].encode()
        elif "form" in row:
            content = _chunk_line(row)
        else:
            content = _event_line(row, version)
        yield Line(row["line"], row["byte_offset"], content, row["is_provisional"], row["raw_line"] is not None)


def read_version(log: Row) -> int:
    """The version a log was read by: that of its name where the header states none, as `Scan` has it."""
    version = log.get("format_version")
    if version is None and log.get("header") is not None:
        version = min(log.get("generation") or 0, NEWEST_VERSION)
    return version or 0


def _line_number(row: Row) -> int:
    number: int = row["line"]
    return number


def _chunk_line(row: Row) -> bytes:
    seq, time = "seq", "time"
    kind = "assistant/chunk"
    if row["form"] == "packed":
        kind, seq, time = ROW_TYPES[row["chunk_type"]], "seq0", "time0"
    start = f'{{"type":"{kind}","{seq}":{row["seq"]},"{time}":{row["time_ms"]},"data":'
    return f"{start}{row['payload']}}}".encode()


def _event_line(row: Row, version: int) -> bytes:
    """A line as the harness writes it: one that it does not write so is kept whole."""
    payload: str = row["payload"]
    if row["stream"] is not None:
        payload = json_text(_data(row)).decode()
    kind = json_text(row["type"]).decode()
    parts = [f'{{"type":{kind},"seq":{row["seq"]},"time":{row["time_ms"]},"data":{payload}']
    if row["source_ranges"] is not None:
        parts.append(f',"sourceEventSeqs":{json_text(expand(row["source_ranges"])).decode()}')
    if row["surface_op"] is not None:
        parts.append(f',"surfaceOp":{json_text(_surface_op(row, version)).decode()}')
    return f"{''.join(parts)}}}".encode()


def _data(row: Row) -> Any:
    """The payload with its stream put back."""
    data = parse(row["payload"])
    if row["stream"] is not None and data["stream"] == []:
        data["stream"] = parse(row["stream"])
    return data


def _surface_op(row: Row, version: int) -> Any:
    if row["surface_op"] == "append":
        return "append"
    first, last = ("start", "end") if version < 3 else ("startSeq", "endSeq")
    return {"op": row["surface_op"], first: row["replace_start_seq"], last: row["replace_end_seq"]}


def _event(row: Row, version: int) -> Object:
    event: Object = {"type": row["type"], "seq": row["seq"], "time": row["time_ms"], "data": _data(row)}
    if row["source_ranges"] is not None:
        event["sourceEventSeqs"] = expand(row["source_ranges"])
    if row["surface_op"] is not None:
        event["surfaceOp"] = _surface_op(row, version)
    if row["is_ignorable"]:
        event["ignorable"] = True
    return event if row["raw_line"] is None else as_written(row, event)


def as_written(row: Row, event: Object) -> Object:
    """The line as written, with what was normalised in it: members that have no column are there too."""
    line: Object = parse(row["raw_line"])
    if row["normalised_from"] == "tutorial":
        keeps_op = "surfaceOp" in line and row["type"] in MESSAGE_TYPES[0]
        return event | {"surfaceOp": line["surfaceOp"]} if keeps_op else event
    known = ("type", "data") if row["normalised_from"] else ()
    sources = ("sourceEventSeqs",) if row["source_ranges"] is not None else ()
    return line | {name: event[name] for name in (*known, *sources)}


def _chunk_events(row: Row) -> Iterator[Object]:
    """The assistant/chunk events of a line of chunks."""
    line = parse(row["raw_line"] if row["raw_line"] is not None else _chunk_line(row))
    if line["type"] not in PACKED_TYPES:
        yield line
        return
    data, time = line["data"], row["time_ms"]
    kind = PACKED_TYPES[line["type"]]
    place = {"turn": row["turn"], "step": row["step"]}
    texts = data["args"] if kind == "tool-call-delta" else data["texts"]
    for seq, (gap, text) in enumerate(zip((0, *data["dt"]), texts, strict=True), row["seq"]):
        time += int(gap)
        chunk = delta_of(kind, data, text)
        yield {"type": "assistant/chunk", "seq": seq, "time": time, "data": {**place, "chunk": chunk}}
