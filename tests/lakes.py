"""Hand-made raw tables: rows as dicts -> Parquet files -> a built database, by itself or in a lake."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.commands.steps import building, current_state, prices_of, publish_models
from turnlake.lake.files import RawFiles
from turnlake.lake.manifest import Manifest, dump_manifest
from turnlake.lake.state import Lake, State
from turnlake.models.build import build_database
from turnlake.rows.tables import CHUNK_RUNS, EVENTS, LOGS, TABLES, Table

Row = dict[str, Any]

START_MS = 1_787_659_200_000  # 2026-08-25T12:00:00Z
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class Log:
    """One log, written row by row as a session would: `seq`, `line` and time count on unless they are given."""

    def __init__(self, session_id: str | None = "s1", **facts: Any) -> None:
        self.log_id = facts.pop("log_id", f"log-{session_id}")
        self.events: list[Row] = []
        self.chunk_runs: list[Row] = []
        self.findings: list[Row] = []
        self.seq, self.line, self.branch = 0, 2, 0
        self.facts = {
            "log_id": self.log_id, "session_id": session_id, "header_id": session_id, "source": "/logs",
            "path": f"{session_id}/session.jsonl", "format_version": 0, "dialect": "real", "verdict": "clean",
            "created_at_ms": START_MS, "inherited_event_count": 0, "is_read": True, "is_torn": False,
            "is_missing": False, "has_unknown_required_type": False, "clock_anomaly_count": 0,
        } | facts  # fmt: skip

    def event(self, type_: str, turn: int | None = None, step: int | None = None, **columns: Any) -> int:
        """Adds an event, one second after the row before unless `time_ms` is given; returns its seq."""
        return self._add(self.events, {"type": type_, "turn": turn, "step": step} | columns, 1)

    def chunk(
        self, chunk_type: str, turn: int = 1, step: int = 1, *, texts: list[str] | None = None, **columns: Any
    ) -> int:
        """Adds a run of stream chunks, a packed row where it has several texts; returns the seq of its first."""
        count = len(texts) if texts else 1
        dt = columns.pop("dt", [0] * (count - 1))
        data: Row = {"turn": turn, "step": step}
        if count > 1:
            data |= {"index": columns.get("block_index", 0), "dt": dt}
            data |= {"id": "c", "args": texts} if chunk_type == "tool-call-delta" else {"texts": texts}
        else:
            data["chunk"] = {"type": chunk_type} | ({"text": texts[0]} if texts else {})
        row = {"chunk_type": chunk_type, "turn": turn, "step": step, "chunk_count": count}
        row |= {"form": "packed" if count > 1 else "single", "payload": json.dumps(data, separators=(",", ":"))}
        seq = self._add(self.chunk_runs, row | columns, count)
        row = self.chunk_runs[-1]
        row.setdefault("last_time_ms", row["time_ms"] + sum(dt))
        if chunk_type.endswith("-delta"):
            row.setdefault("first_token_ms", row["time_ms"])
        return seq

    def message(self, turn: int = 1, step: int = 1, **columns: Any) -> int:
        """Adds an assistant/message with one block, of a known model."""
        defaults = {"surface_op": "append", "provider": "deepseek-official", "model": "m1", "content_block_count": 1}
        return self.event("assistant/message", turn, step, **(defaults | columns))

    def turn(self, turn: int = 1, state: str | None = "completed", **usage: Any) -> None:
        """Adds a turn of one step and one call; `state` None leaves it dangling after the message."""
        self.event("turn/start", turn)
        self.event("step/start", turn, 1)
        self.message(turn, 1, **({"input_tokens": 10, "output_tokens": 2, "usage_place": "message"} | usage))
        if state:
            self.event("step/end", turn, 1)
            self.event("turn/end", turn, reason_kind=state)

    def back_to(self, seq: int) -> None:
        """Lets a second writer go on from `seq`: a new branch."""
        self.seq, self.branch = seq, self.branch + 1

    def finding(self, code: str, **columns: Any) -> None:
        """Adds a finding."""
        self.findings.append({"log_id": self.log_id, "code": code, "severity": "warning", "detail": "d"} | columns)

    def row(self) -> Row:
        """The row of the log itself."""
        count = len(self.events) + sum(run["chunk_count"] for run in self.chunk_runs)
        return {"event_count": count, "accepted_event_count": count} | self.facts

    def _add(self, rows: list[Row], columns: Row, count: int) -> int:
        seq = columns.pop("seq", self.seq)
        place = {"log_id": self.log_id, "branch": self.branch, "seq": seq, "line": self.line, "is_provisional": False}
        rows.append(place | {"time_ms": START_MS + 1000 * self.line} | columns)
        self.seq, self.line = seq + count, self.line + 1
        return int(seq)


def write_raw(folder: Path, logs: Iterable[Log], *, parts: int = 1) -> RawFiles:
    """The logs as Parquet files, the rows of each table spread over `parts` files."""
    logs = list(logs)
    rows: Mapping[str, list[Row]] = {
        "logs": [log.row() for log in logs],
        "events": [row for log in logs for row in log.events],
        "chunk_runs": [row for log in logs for row in log.chunk_runs],
        "findings": [row for log in logs for row in log.findings],
    }
    return RawFiles({name: tuple(_write(folder, table, rows[name], parts)) for name, table in TABLES.items()})


def built(folder: Path, *logs: Log, **options: Any) -> duckdb.DuckDBPyConnection:
    """A connection to the database built from the logs."""
    build_database(write_raw(folder, logs), folder / "lake.duckdb", threads=1, **options)
    return opened(folder / "lake.duckdb")


def opened(database: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a built database, as users have it."""
    db = duckdb.connect()
    db.execute("set TimeZone = 'UTC'")
    db.execute(f"attach '{database}' as turnlake (read_only)")
    db.execute("use turnlake")
    return db


def rows(db: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    """The rows of a query as dicts."""
    result = db.execute(query)
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _write(folder: Path, table: Table, rows: list[Row], parts: int) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // parts) or 1
    for number in range(parts):
        path = folder / f"{table.name}-{number}.parquet"
        part = rows[number * size : (number + 1) * size]
        unknown = {name for row in part for name in row} - set(table.names)
        assert not unknown, f"{table.name} has no columns {unknown}"
        pq.write_table(pa.Table.from_pylist(part, schema=table.schema()), path)
        yield path.absolute()


__all__ = ["CHUNK_RUNS", "EVENTS", "LOGS", "START_MS", "TOKENS", "Log", "built", "opened", "rows", "write_raw"]


def commit(lake: Lake, work: Path, *logs: Log) -> State:
    """Makes the logs the current state of the lake."""
    for table in TABLES:
        (work / table).mkdir()
    for name, (file,) in write_raw(work / "raw", logs).tables.items():
        shutil.move(file, work / name / "part-00000.parquet")
    (work / "manifest.json").write_bytes(dump_manifest(Manifest()))
    return lake.commit_state(work)


def committed(path: Path, *logs: Log) -> Path:
    """A lake with these logs, and no database yet."""
    with Lake(path).lock():
        commit(Lake(path), Lake(path).work_dir(), *logs)
    return path


def published(path: Path, *logs: Log) -> Path:
    """The same, built and published."""
    committed(path, *logs)
    args = argparse.Namespace(
        command="model", lake=path, quiet=True, no_wait=False, memory=None, threads=None, prices=None, currency="USD"
    )
    with building(args) as (lake, work):
        publish_models(lake, current_state(lake), work, args, prices_of(args))
    return path


def filled(path: Path, *turns: int) -> Path:
    """A lake with one session of these turns, built and published."""
    return published(path, of_turns(*turns))


def of_turns(*turns: int) -> Log:
    """A log of these turns, five events each."""
    log = Log()
    for turn in turns:
        log.turn(turn)
    return log
