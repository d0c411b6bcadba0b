"""Batches of rows -> Parquet files. A thread encodes and compresses while Python reads on."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.files import make_folder
from turnlake.rows.tables import Table

COMPRESSION_LEVEL = 3
# The columns that readers skip row groups by; bounds of the others would only cost.
PRUNED_BY = ("log_id", "seq", "line", "type", "time_ms")
_LIST_TYPES = ("ints", "texts")


class Writer(pq.ParquetWriter):  # type: ignore[misc] # PyArrow comes without types
    """A writer that is closed once. One that can't be would try again when collected, and tell that past everybody."""

    is_open = False  # one whose file could not be made, too

    def close(self) -> None:
        """Finish the file; OSError where it can't be."""
        try:
            super().close()
        finally:
            self.is_open = False

    def __del__(self) -> None:
        with suppress(OSError):  # an abandoned file: what went wrong is on its way up already
            self.close()


def parquet_writer(path: Path, table: Table) -> Writer:
    """A writer of a table's Parquet file, columns encoded as declared."""
    leaf = {column.name: f"{column.name}.list.element" for column in table.columns if column.type in _LIST_TYPES}
    return Writer(
        path,
        table.schema(),
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=[leaf.get(name, name) for name in table.encoded("dictionary")],
        column_encoding={leaf.get(name, name): "DELTA_BINARY_PACKED" for name in table.encoded("delta")},
        write_statistics=[name for name in PRUNED_BY if name in table.names],
        write_page_checksum=True,
    )


def write_rows(path: Path, table: Table, rows: Iterable[dict[str, object]]) -> None:
    """A small table as one file."""
    write_table(path, table, pa.Table.from_pylist(list(rows), schema=table.schema()))


def write_table(path: Path, table: Table, rows: pa.Table) -> None:
    """Rows in Arrow as one file."""
    with parquet_writer(path, table) as writer:
        writer.write_table(rows)


class PartWriter:
    """Writes one part of each of some tables; at most one batch waits while another is written."""

    def __init__(self, folder: Path, name: str, tables: Iterable[Table]) -> None:
        self._writers = {}
        for table in tables:
            make_folder(folder / table.name)
            self._writers[table.name] = parquet_writer(folder / table.name / name, table)
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None

    def write(self, batches: dict[str, pa.RecordBatch]) -> None:
        """Hand over a batch of rows for each table named; each becomes a row group."""
        if self._pending is not None:
            self._pending.result()
        self._pending = self._thread.submit(self._write, batches)

    def _write(self, batches: dict[str, pa.RecordBatch]) -> None:
        for name, batch in batches.items():
            if batch.num_rows:
                self._writers[name].write_batch(batch)

    def close(self) -> None:
        """Finish all files; raises what the thread raised."""
        try:
            if self._pending is not None:
                self._pending.result()
        finally:
            self._thread.shutdown()
            with ExitStack() as stack:
                for writer in self._writers.values():
                    stack.callback(writer.close)
