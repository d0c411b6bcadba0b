"""The official logs in one database, each a session named for its case, since many are copies of one session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from lakes import opened
from logs import part_files
from turnlake.lake.convert import Batch, convert
from turnlake.lake.files import RawFiles
from turnlake.models.build import build_database
from turnlake.rows.tables import LOGS, TABLES
from turnlake.rows.writer import write_rows
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source

Row = dict[str, Any]
PART = "part.parquet"


@dataclass(frozen=True)
class Official:
    """The corpus, and the database of all its logs. `logs` are the rows of the logs by case."""

    corpus: Path
    logs: dict[str, Row]
    parts: Path
    db: duckdb.DuckDBPyConnection

    @cached_property
    def cases(self) -> dict[str, Row]:
        """The lines of the index by case."""
        lines = (self.corpus / "index.jsonl").read_text(encoding="utf-8").splitlines()
        return {case["name"]: case for case in map(json.loads, lines)}

    @cached_property
    def expected(self) -> dict[str, Row]:
        """What the official code says of each log, by case."""
        return {
            name: json.loads((self.corpus / name / "expected.json").read_text(encoding="utf-8")) for name in self.cases
        }

    @cached_property
    def accepted(self) -> dict[str, Row]:
        """The same for the logs that their reader reads."""
        return {name: answer for name, answer in self.expected.items() if "rejected" not in answer}

    def file(self, name: str) -> Path:
        """The log of a case."""
        return self.corpus / name / str(self.cases[name]["file"])


@contextmanager
def official_database(corpus: Path, folder: Path) -> Iterator[Official]:
    """All logs of the corpus, converted and built in that folder."""
    found = find_logs([parse_source(str(corpus))]).logs
    converted = convert(Batch(PART, found), folder)
    logs = {
        log.folder: one.row | {"session_id": log.folder}
        for log, one in zip(found, converted, strict=True)
        if one.row is not None
    }
    (folder / "logs").mkdir()
    write_rows(folder / "logs" / PART, LOGS, list(logs.values()))
    files = {name: part_files(folder, name, PART) for name in TABLES if name != "logs"}
    build_database(RawFiles({"logs": (folder / "logs" / PART,)} | files), folder / "x.duckdb", threads=2)
    with opened(folder / "x.duckdb") as db:
        yield Official(corpus, logs, folder, db)
