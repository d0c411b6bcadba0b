"""Columns filled row by row in Python and handed to Arrow in one piece."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from turnlake.rows.tables import Table


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
        values = pa.array(self._values, self._type.value_type)
        column = pa.Array.from_buffers(self._type, count, [pa.py_buffer(present), offsets], children=[values])
        self._values, self._ends, self._missing = [], array("i", [0]), []
        return column


class Columns:
    """Rows of one table under construction.

    A row is a tuple of the columns named in `always`, and a mapping of others that it has a value for; what it
    does not name is NULL. That way a rare column costs nothing in the rows without it. The columns named in
    `flat` are no part of the rows: whoever adds a row appends to each of `lists`. Texts in the columns named in
    `encoded` are given as UTF-8 bytes.
    """

    def __init__(
        self, table: Table, always: Sequence[str] = (), flat: Sequence[str] = (), encoded: Sequence[str] = ()
    ) -> None:
        self._schema = table.schema()
        self._always = tuple(always)
        self._encoded = frozenset(encoded)
        self._rows: list[tuple[Any, ...]] = []
        # Of each rare column the rows that have a value, and the values.
        self._rare: dict[str, list[tuple[int, Any]]] = {n: [] for n in table.names if n not in (*always, *flat)}
        self.lists = {name: ListColumn(self._schema.field(name).type) for name in flat}

    def add(self, row: tuple[Any, ...], rare: Mapping[str, Any]) -> None:
        """Append a row."""
        if rare:
            at, columns = len(self._rows), self._rare
            for name, value in rare.items():
                columns[name].append((at, value))
        self._rows.append(row)

    def take(self) -> pa.RecordBatch:
        """All rows as one batch; none are left."""
        count = len(self._rows)
        values = dict(zip(self._always, zip(*self._rows, strict=True), strict=True)) if count else {}
        arrays = []
        for field in self._schema:
            if field.name in self.lists:
                arrays.append(self.lists[field.name].take())
            elif field.name in self._rare:
                arrays.append(self._rare_array(field, count))
            else:
                arrays.append(self._array(field, values.get(field.name, ())))
        self._rows = []
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _rare_array(self, field: pa.Field, count: int) -> pa.Array:
        present = self._rare[field.name]
        if not present:
            return pa.nulls(count, field.type)
        self._rare[field.name] = []
        values: list[Any] = [None] * count
        for row, value in present:
            values[row] = value
        return self._array(field, values)

    def _array(self, field: pa.Field, values: Sequence[Any]) -> pa.Array:
        if field.name in self._encoded:
            encoded = pa.array(values, pa.binary())
            return pa.Array.from_buffers(pa.string(), len(encoded), encoded.buffers())
        return pa.array(values, field.type)
