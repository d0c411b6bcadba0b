"""One log read in each of the ways a lake reads it: at once, as it grows, and from its stored rows once it is gone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from logs import TABLES, ConvertedRows, part_files, part_rows, write
from turnlake.lake.convert import Batch, Converted, Stored, convert
from turnlake.rows.writer import Row
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source

# What says how long the file is and where reading goes on; `proof` is not made of stored rows.
ABOUT_THE_FILE = ("bytes", "decoded_bytes", "line_count", "is_torn", "torn_bytes", "proof")

Tables = dict[str, list[Row]]


class Reading(ConvertedRows):
    """The rows of one reading: the log's own, and those of the other tables."""

    def __init__(self, folder: Path, converted: Converted) -> None:
        self.folder, self.mark = folder, converted.mark
        self.log: Row = converted.row or {}
        self.tables = {table: part_rows(folder, table, "p.parquet") for table in TABLES}

    def lasting(self, table: str) -> list[Row]:
        """The rows that stand still when the log grows."""
        lasting, _ = part_files(self.folder, table, "p.parquet")
        rows: list[Row] = pq.read_table(lasting).to_pylist()
        return rows


class Lived:
    """A log in a folder of its own, read again whenever its content changes."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._count = folder, name, 0

    def read(self, data: bytes, before: Reading | None = None, *, is_gone: bool = False) -> Reading:
        """The log with this content; `before` is the reading that it has grown since, or that is left of it."""
        path = write(self._folder / "root", data, self._name)
        logs = find_logs([parse_source(str(path.parents[2]))]).logs
        stored = {}
        if before is not None:
            events, runs = (part_files(before.folder, table, "p.parquet") for table in ("events", "chunk_runs"))
            stored = {logs[0].log_id: Stored(before.log, events, runs, None if is_gone else before.mark)}
            if is_gone:
                path.unlink()
        self._count += 1
        folder = self._folder / str(self._count)
        [converted] = convert(Batch("p.parquet", logs, stored), folder)
        return Reading(folder, converted)


@contextmanager
def lived(name: str) -> Iterator[Lived]:
    """A log of this name."""
    with tempfile.TemporaryDirectory() as folder:
        yield Lived(Path(folder), name)


def assert_all_ways_agree(data: bytes, name: str, cut: int) -> Reading:
    """Reads the log at once, after it has grown from its first `cut` bytes, and from its rows: all give the same rows.

    The reading before it grew is returned; its files are gone.
    """
    with lived(name) as log:
        whole = log.read(data)
        start = log.read(data[:cut])
        if start.mark is not None:
            grown = log.read(data, start)
            for table in TABLES:
                rows = in_order([*start.lasting(table), *grown.tables[table]])
                assert rows == in_order(whole.tables[table]), f"{table} of the log that grew"
            assert grown.log == whole.log
        again = log.read(data, whole, is_gone=True)
        assert (again.events, again.runs) == (whole.events, whole.runs)
        assert told(again) == told(whole)
    return start


def in_order(rows: list[Row]) -> list[str]:
    """The rows as text, in one order."""
    return sorted(map(repr, rows))


def told(reading: Reading) -> Row:
    """The row of the log without what only the file tells."""
    return {name: value for name, value in reading.log.items() if name not in ABOUT_THE_FILE}
