"""Columns filled row by row in Python and handed to Arrow in one piece."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from turnlake.parquet.tables import Table


class ListColumn:
    """A column of lists, kept flat: all values one after another, and where each row's end."""

    def __init__(self, type_: pa.ListType) -> None:
        self._type = type_
        self._values: list[Any] = []
        self._ends = array("i", [0])
        self._missing: list[int] = []

    def append(self, items: Sequence[Any] | None) -> None:
        """The list of the next row, or None."""
        if items is None:
            self._missing.append(len(self._ends) - 1)
        else:
            self._values += items
        self._ends.append(len(self._values))

    def take(self) -> pa.Array:
        """The column as an Arrow array; empty afterwards."""
        count = len(self._ends) - 1
        present = bytearray(b"\xff") * (count // 8 + 1)
        for row in self._missing:
            present[row // 8] &= ~(1 << row % 8)
        offsets = pa.py_buffer(self._ends)
        column = pa.Array.from_buffers(
            self._type,
            count,
            [pa.py_buffer(present), offsets],
            children=[pa.array(self._values, self._type.value_type)],
        )
        self._values, self._ends, self._missing = [], array("i", [0]), []
        return column


class Columns:
    """Rows of one table under construction.

    A row is a mapping of column names to values; columns it does not name are NULL. Gaps are filled when a
    column is next touched, so that rare columns cost next to nothing. The columns named in `flat` are no part
    of the rows: they are in `lists`, and whoever adds a row appends to each.
    """

    def __init__(self, table: Table, flat: Sequence[str] = ()) -> None:
        self._schema = table.schema()
        self._values: dict[str, list[Any]] = {name: [] for name in table.names if name not in flat}
        self.lists = {name: ListColumn(self._schema.field(name).type) for name in flat}
        self.row_count = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row."""
        at, values = self.row_count, self._values
        for name, value in row.items():
            column = values[name]
            if len(column) < at:
                column.extend(repeat(None, at - len(column)))
            column.append(value)
        self.row_count = at + 1

    def take(self) -> pa.RecordBatch:
        """All rows as one batch; none are left."""
        arrays = [
            self.lists[field.name].take() if field.name in self.lists else self._take(field) for field in self._schema
        ]
        self.row_count = 0
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _take(self, field: pa.Field) -> pa.Array:
        column = self._values[field.name]
        column.extend(repeat(None, self.row_count - len(column)))
        self._values[field.name] = []
        return pa.array(column, field.type)
