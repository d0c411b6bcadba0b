"""Small logs of every format, whole and damaged, and how tests read them without a folder of their own."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

from turnlake.findings import Finding
from turnlake.format.reader import LogPass
from turnlake.format.records import logical_events
from turnlake.format.values import canonical
from turnlake.lake.convert import Batch, convert
from turnlake.messages.log import Log
from turnlake.rows.replay import stored_events
from turnlake.rows.writer import TAIL, Row
from turnlake.sources.discover import find_logs
from turnlake.sources.lines import MAX_LINE
from turnlake.sources.logfile import LogFile
from turnlake.sources.source import parse_source

Object = dict[str, Any]

START_MS = 1_787_659_200_000  # 2026-08-25T12:00:00Z
VERSIONS = (0, 1, 2, 3, 4)
USAGE = {"inputTokens": 8, "outputTokens": 2}
TABLES = ("events", "chunk_runs", "findings")


def header(version: int = 4, /, **members: Any) -> Object:
    """A header; a member given as ... is left out."""
    known = {
        "type": "session",
        "version": version,
        "id": "s1",
        "createdAt": START_MS,
        "cwd": "/w",
        "delegationDepth": 0,
    }
    known |= {"isSeeded": False} if version >= 2 else {}
    return {key: value for key, value in (known | members).items() if value is not ...}


def text(value: str) -> Object:
    """A text block."""
    return {"type": "text", "text": value}


def dumps(value: Any) -> bytes:
    """JSON as the harness writes it: no blanks, characters as they are, lone surrogates as escapes."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")


def chunk_list(answer: str) -> list[Object]:
    """The stream of an answer, chunk by chunk."""
    return [
        {"type": "block-start", "index": 0, "blockType": "text"},
        *({"type": "text-delta", "index": 0, "text": part} for part in answer),
        {"type": "block-end", "index": 0, "block": text(answer)},
        {"type": "usage", "usage": USAGE},
        {"type": "finish", "reason": {"kind": "stop"}},
    ]


class Session:
    """A log under construction: events get the seq and time that are due, anything else goes in by `line`."""

    def __init__(self, version: int = 4, /, **members: Any) -> None:
        self.version = version
        self.lines: list[bytes] = [dumps(header(version, **members))]
        self.seq, self.time = 0, START_MS
        self.turn_number = self.step_number = 0

    def line(self, value: Any, events: int = 0) -> Session:
        """A line as it is: bytes, or something to write as JSON; it counts for so many events."""
        self.lines.append(value if isinstance(value, bytes) else dumps(value))
        self.seq += events
        self.time += events
        return self

    def add(self, type_: str, data: Any = ..., **members: Any) -> int:
        """An event; returns its seq. A member given as ... is left out."""
        seq = self.seq
        event = {"type": type_, "seq": seq, "time": self.time, "data": {} if data is ... else data} | members
        self.line({key: value for key, value in event.items() if value is not ...}, 1)
        return seq

    @property
    def place(self) -> Object:
        """Turn and step that are open."""
        return {"turn": self.turn_number, "step": self.step_number}

    def turn_start(self) -> int:
        self.turn_number, self.step_number = self.turn_number + 1, 0
        return self.add("turn/start", {"turn": self.turn_number})

    def step_start(self) -> int:
        self.step_number += 1
        return self.add("step/start", self.place)

    def step_end(self) -> int:
        return self.add("step/end", self.place)

    def turn_end(self, kind: str = "completed", **reason: Any) -> int:
        return self.add("turn/end", {"turn": self.turn_number, "reason": {"kind": kind} | reason})

    def user(self, words: str = "Hi", **members: Any) -> int:
        data = {"id": f"u{self.seq}", "role": "user", "content": [text(words)], "source": {"kind": "user"}}
        return self.add("user/message", data, **({"surfaceOp": "append"} | members))

    def system(self, words: str = "S", **members: Any) -> int:
        message = {
            "id": f"y{self.seq}",
            "role": "system",
            "content": [text(words)],
            "source": {"kind": "system-prompt"},
        }
        return self.add("system/message", self.place | {"message": message}, **({"surfaceOp": "append"} | members))

    def chunk(self, chunk: Object) -> int:
        return self.add("assistant/chunk", self.place | {"chunk": chunk})

    def packed(self, texts: Sequence[str], dt: Sequence[int] | None = None, **data: Any) -> int:
        """A packed row of text deltas (v0, v1)."""
        steps = [1] * (len(texts) - 1) if dt is None else list(dt)
        data = self.place | {"index": 0, "dt": steps, "texts": list(texts)} | data
        seq = self.seq
        self.line({"type": "text-chunks", "seq0": seq, "time0": self.time, "data": data}, len(texts))
        return seq

    def assistant(self, answer: str = "Hello", calls: Sequence[tuple[str, str, str]] = (), **members: Any) -> int:
        """The chunks of an answer and its message; calls are (id, name, arguments)."""
        blocks = [text(answer)] if answer else []
        blocks += [{"type": "tool-call", "id": id_, "name": name, "arguments": args} for id_, name, args in calls]
        source = {"kind": "model", "provider": "deepseek-official", "model": "deepseek-v4-pro"}
        data: Object = self.place
        if self.version < 2:
            first = self.seq
            for chunk in chunk_list(answer):
                self.chunk(chunk)
            members = {"sourceEventSeqs": list(range(first, self.seq))} | members
        else:
            times = enumerate(chunk_list(answer), self.time)
            data = data | {"stream": [{"type": "chunk", "time": time, "chunk": chunk} for time, chunk in times]}
        message = {"id": f"a{self.seq}", "role": "assistant", "content": blocks, "source": source}
        data = data | {"usage": USAGE, "message": message}
        return self.add("assistant/message", data, **({"surfaceOp": "append"} | members))

    def call(self, call_id: str = "c1", name: str = "bash", arguments: str = "{}") -> int:
        return self.add("tool/call", self.place | {"callId": call_id, "name": name, "arguments": arguments})

    def result(self, call_id: str = "c1", words: str = "done", data: Object | None = None, **members: Any) -> int:
        """The result of a call; data joins the event's data."""
        message = self.result_message(call_id, words)
        return self.add("tool/result", self.place | {"message": message} | (data or {}), surfaceOp="append", **members)

    def result_message(self, call_id: str = "c1", words: str = "done", **block: Any) -> Object:
        message = {"id": f"r{self.seq}", "source": {"kind": "tool", "callId": call_id}}
        result = {"toolCallId": call_id, "content": [text(words)]} | block
        if self.version >= 4:
            return message | {"role": "tool"} | result
        return message | {"role": "user", "content": [{"type": "tool-result"} | result]}

    def turn(self, words: str = "Hi", answer: str = "Hello") -> Session:
        """A whole turn of one step without calls."""
        self.turn_start()
        self.step_start()
        self.user(words)
        self.assistant(answer)
        self.step_end()
        self.turn_end()
        return self

    def turn_with_call(self, arguments: str = "{}", words: str = "done") -> Session:
        """A whole turn of one step with one call."""
        self.turn_start()
        self.step_start()
        self.user()
        self.assistant("", [("c1", "bash", arguments)])
        self.result(sourceEventSeqs=[self.call(arguments=arguments)], words=words)
        self.step_end()
        self.turn_end()
        return self

    def open_step(self) -> Session:
        """The start of a turn: turn/start, step/start, user/message."""
        self.turn_start()
        self.step_start()
        self.user()
        return self

    @property
    def raw(self) -> bytes:
        return as_raw(self.lines)


def as_raw(lines: Iterable[bytes]) -> bytes:
    """The lines as a raw log, each ended."""
    return b"".join(line + b"\n" for line in lines)


def frame(data: bytes, *, checksum: bool = True) -> bytes:
    """One zstd frame."""
    return zstandard.ZstdCompressor(write_checksum=checksum).compress(data)


def as_zstd(lines: Sequence[bytes], frames: Sequence[int] = ()) -> bytes:
    """The lines as a compressed log: the header, then frames of so many lines each, then the rest in one."""
    groups, at = [list(lines[:1])], 1
    for count in (*frames, len(lines)):
        groups.append(list(lines[at : at + count]))
        at += count
    return b"".join(frame(as_raw(group)) for group in groups if group)


def file_name(version: int, container: str = "raw") -> str:
    """The canonical name of a log."""
    return f"session{f'.v{version}' if version else ''}.jsonl{'.zstd' if container == 'zstd' else ''}"


def write(root: Path, data: bytes, name: str = "session.v4.jsonl", session: str = "s1", project: str = "--w--") -> Path:
    """The log where the harness would have it below a sessions root."""
    path = root / project / session / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read_bytes(data: bytes, name: str = "session.v4.jsonl", max_line: int = MAX_LINE) -> Log:
    """What `read_log` gives for a file of that content and name in a session folder."""
    log = LogFile("/x", None, f"s1/{name}", f"/x/s1/{name}", None, len(data), 0)
    reading = LogPass(log, io.BytesIO(data), "zstd" if name.endswith("zstd") else "raw", max_line)
    records = tuple(reading.records())
    assert reading.verdict is not None
    return Log(reading.scan.header, reading.verdict, tuple(reading.scan.findings), records)


def read(session: Session) -> Log:
    """What `read_log` gives for a session stored raw."""
    return read_bytes(session.raw, file_name(session.version))


def codes(log: Log) -> set[str]:
    """The codes of a log's findings."""
    return {finding.code for finding in log.findings}


# Most logs made here spare themselves a request header, many the end of their turn; each is remarked on once a log.
SPARED = {"INV-30", "INV-46"}


def faults(log: Log) -> tuple[Finding, ...]:
    """The findings of a log that may lack a request header and the end of its last turn."""
    return tuple(finding for finding in log.findings if finding.code not in SPARED)


def part_files(folder: Path, table: str, name: str) -> tuple[Path, Path]:
    """The two parts of a table that a conversion writes: what stands still, and what the next reading replaces."""
    return folder / table / name, folder / TAIL / table / name


def part_rows(folder: Path, table: str, name: str) -> list[Row]:
    """The rows of both, in order of lines."""
    rows = [row for path in part_files(folder, table, name) for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=lambda row: row.get("line") or 0) if table in ("events", "chunk_runs") else rows


class ConvertedRows:
    """The rows that a conversion gave of one log, by table."""

    tables: dict[str, list[Row]]

    @property
    def events(self) -> list[Row]:
        return self.tables["events"]

    @property
    def runs(self) -> list[Row]:
        return self.tables["chunk_runs"]

    @property
    def findings(self) -> list[Row]:
        """Those of a log that may lack a request header and the end of its last turn."""
        return [row for row in self.tables["findings"] if row["code"] not in SPARED]


class Stored(ConvertedRows):
    """A log converted to Parquet: its row of `logs`, the rows of the other tables, and its events read back."""

    def __init__(self, data: bytes, name: str = "session.v4.jsonl", max_line: int = MAX_LINE) -> None:
        with tempfile.TemporaryDirectory() as folder:
            # Named by its root: the folder of a log stands in for the id that its header lacks.
            write(root := Path(folder) / "root", data, name)
            parts = Path(folder) / "parts"
            [converted] = convert(Batch("p.parquet", find_logs([parse_source(str(root))]).logs), parts, max_line)
            self.tables = {table: part_rows(parts, table, "p.parquet") for table in TABLES}
        self.log: Row = converted.row or {}

    def replayed(self) -> list[str]:
        """The logical events of all rows in canonical JSON, accepted or not."""
        return [canonical(plain(event)) for event in stored_events(self.log, self.events, self.runs)]

    @property
    def unread_lines(self) -> set[int]:
        """The lines that findings say give no row."""
        found = [row for row in self.findings if row["code"] == "unread_line"]
        return {line for row in found for line in range(row["line"], row["line"] + row["line_count"])}


def event_texts(log: Log) -> list[str]:
    """The logical events of all lines of a log read directly, accepted or not, in canonical JSON."""
    return [canonical(plain(event)) for event in logical_events(log.records)]


def plain(value: Any) -> Any:
    """The value with integers for floats without a fraction: in JSON 1.0 and 1 are one number."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
