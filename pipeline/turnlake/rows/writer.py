"""Rows -> Arrow -> Parquet: rows wait in blocks of one layout, and a row group holds one block after the other."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.files import make_folder
from turnlake.findings import CODES, Finding
from turnlake.format.records import ChunkLine, Record
from turnlake.rows import chunk_row, event_row
from turnlake.rows.event_row import RARE
from turnlake.rows.tables import CHUNK_RUNS, EVENTS, FINDINGS, Table

COMPRESSION_LEVEL = 3
# Bytes of log lines that make up a row group: what one conversion holds in memory at a time.
GROUP_BYTES = 12 << 20
# What a finding weighs in a row group: a log may be nothing but faults.
FINDING_BYTES = 500
# The folder beside the tables that holds what the next reading replaces.
TAIL = "tail"
# The columns that readers skip row groups by; bounds of the others would only cost.
PRUNED_BY = ("log_id", "seq", "line", "type", "time_ms")
# Columns whose texts come as UTF-8, cut out of lines that are that already.
_ENCODED = frozenset(("payload", "stream", "sql_payload", "raw_line"))
_NEVER_NULL = frozenset(("branch", "seq", "line", "byte_offset"))
_LIST_TYPES = ("ints", "texts")

Row = dict[str, Any]


class Writer(pq.ParquetWriter):  # type: ignore[misc] # PyArrow comes without types
    """A writer that is closed once. One that can't be would try again when collected, past everybody."""

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
        # Text compresses better in large pages, and is read in whole row groups anyway.
        data_page_size=GROUP_BYTES,
    )


def write_rows(path: Path, table: Table, rows: Iterable[dict[str, object]]) -> None:
    """A small table as one file."""
    write_table(path, table, pa.Table.from_pylist(list(rows), schema=table.schema()))


def write_table(path: Path, table: Table, rows: pa.Table) -> None:
    """Rows in Arrow as one file."""
    with parquet_writer(path, table) as writer:
        writer.write_table(rows)


class Blocks:
    """Rows of one table under construction, as tuples; every row of a block has the same columns.

    `layouts` names the columns of each block in order. The last one is RARE: a mapping of further columns, or None.
    What a layout lacks and RARE does not name is NULL.
    """

    def __init__(self, table: Table, layouts: Mapping[str, tuple[str, ...]]) -> None:
        self._schema = table.schema()
        self._layouts = layouts
        self._rows: dict[str, list[tuple[Any, ...]]] = {layout: [] for layout in layouts}

    def add(self, layout: str, row: tuple[Any, ...]) -> None:
        """One row."""
        self._rows[layout].append(row)

    def take(self) -> pa.Table:
        """All rows; none are left."""
        blocks = [self._block(self._layouts[layout], rows) for layout, rows in self._rows.items() if rows]
        for rows in self._rows.values():
            rows.clear()
        if not blocks:
            return self._schema.empty_table()
        return pa.Table.from_arrays(
            [
                pa.chunked_array(columns, field.type)
                for field, columns in zip(self._schema, zip(*blocks, strict=True), strict=True)
            ],
            schema=self._schema,
        )

    def _block(self, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
        count = len(rows)
        values: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=True))
        for at, rare in enumerate(values.pop(RARE)):
            if rare is not None:
                for name, value in rare.items():
                    column = values.get(name)
                    if type(column) is not list:
                        column = values[name] = [None] * count if column is None else list(column)
                    column[at] = value
        return [
            _array(field, values[field.name]) if field.name in values else pa.nulls(count, field.type)
            for field in self._schema
        ]


def _array(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    if field.name in _ENCODED:
        return _texts(values)
    if field.name in _NEVER_NULL:
        return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])
    return pa.array(values, field.type)


def _texts(values: Sequence[bytes | None]) -> pa.Array:
    """A column of UTF-8 that is there as bytes, joined once."""
    has_all = None not in values
    texts: Sequence[bytes] = values if has_all else [value or b"" for value in values]  # type: ignore[assignment]
    ends = pa.py_buffer(array("i", accumulate(map(len, texts), initial=0)))
    valid = None if has_all else pa.array([value is not None for value in values]).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(values), [valid, ends, pa.py_buffer(b"".join(texts))])


class PartRows:
    """Rows of one part in each of `events`, `chunk_runs` and `findings`; written in row groups as they come."""

    def __init__(self, folder: Path, name: str) -> None:
        self._events = Blocks(EVENTS, event_row.LAYOUTS)
        self._runs = Blocks(CHUNK_RUNS, chunk_row.LAYOUTS)
        self._findings: list[Row] = []
        self._writers: dict[str, Writer] = {}
        for table in (EVENTS, CHUNK_RUNS, FINDINGS):
            make_folder(folder / table.name)
            self._writers[table.name] = parquet_writer(folder / table.name / name, table)
        # Bytes of the lines since the last row group.
        self._held = 0

    def add(self, record: Record, log_id: str) -> None:
        """The row of a record; a row group is written whenever enough has come together."""
        if isinstance(record, ChunkLine):
            self._runs.add(*chunk_row.chunk_row(record, log_id))
        else:
            self._events.add(*event_row.event_row(record, log_id))
        self._held += len(record.raw)
        if self._held > GROUP_BYTES:
            self._flush()

    def add_findings(self, findings: Iterable[Finding], log_id: str | None) -> None:
        """The rows of findings."""
        for finding in findings:
            self._findings.append(finding_row(finding, log_id))
            self._held += FINDING_BYTES

    def _flush(self) -> None:
        batches = {"events": self._events.take(), "chunk_runs": self._runs.take()}
        if self._findings:
            batches["findings"] = pa.Table.from_pylist(self._findings, schema=FINDINGS.schema())
        for name, rows in batches.items():
            if rows.num_rows:
                self._writers[name].write_table(rows, rows.num_rows)
        self._findings.clear()
        self._held = 0

    def close(self) -> None:
        """Write what is left and finish the files."""
        with ExitStack() as stack:
            for writer in self._writers.values():
                stack.callback(writer.close)
            self._flush()


def finding_row(finding: Finding, log_id: str | None) -> Row:
    """The row of a finding."""
    row: Row = {"log_id": log_id, **finding._asdict()}
    row["severity"] = finding.severity or CODES[finding.code].severity
    return row
