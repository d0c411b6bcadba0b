"""The rows of `logs` while an ingest works on them.

Of 10,000 logs few change, and their proofs are long: what a state stored stays in Arrow, and only what decides about a
log becomes Python objects. A row that changes is taken out whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.lake.files import LOGS_PART
from turnlake.lake.state import State
from turnlake.rows.tables import LOGS
from turnlake.rows.writer import Row

# The columns that are needed of every log: to decide which of them count, and whether a build is partial.
DECIDING = (
    *("log_id", "source", "path", "generation", "header_id", "created_at_ms", "format_version", "container"),
    *("line_count", "event_count", "last_event_ms", "is_read", "is_missing"),
    *("session_id", "superseded_by", "superseded_why"),
    *("verdict", "verdict_reason", "is_torn", "unread_line_count"),
)


class LogTable(Mapping[str, Row]):
    """Rows by log_id; those that are as they were stored have the columns DECIDING only."""

    def __init__(self, stored: pa.Table | None = None) -> None:
        schema = LOGS.schema()
        self._stored = schema.empty_table() if stored is None else _with_columns(stored, schema)
        columns = [self._stored[name].to_pylist() for name in DECIDING]
        self._rows: dict[str, Row] = {
            row[0]: dict(zip(DECIDING, row, strict=True)) for row in zip(*columns, strict=True)
        }
        self._places = {log_id: place for place, log_id in enumerate(columns[0])}

    def __getitem__(self, log_id: str) -> Row:
        return self._rows[log_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> KeysView[str]:
        """The log_ids."""
        return self._rows.keys()

    def whole(self, log_id: str) -> Row:
        """The row with all its columns."""
        place = self._places.get(log_id)
        if place is None:
            return self._rows[log_id]
        [row] = self._stored.slice(place, 1).to_pylist()
        return dict(row)

    def put(self, log_id: str, row: Row) -> None:
        """A row in place of what there was."""
        self._rows[log_id] = row
        self._places.pop(log_id, None)

    def drop(self, log_id: str) -> Row | None:
        """Takes a row away, if there is one; what was known of it."""
        self._places.pop(log_id, None)
        return self._rows.pop(log_id, None)

    def set(self, log_id: str, values: Mapping[str, Any]) -> None:
        """Sets some columns of a row, which stays as it is stored where they have these values."""
        known = self._rows[log_id]
        if any(name not in known or known[name] != value for name, value in values.items()):
            self.put(log_id, {**self.whole(log_id), **values})

    def table(self, log_ids: Iterable[str]) -> pa.Table:
        """The whole rows of these logs, in this order."""
        return pa.concat_tables(self._pieces(log_ids)).combine_chunks()

    def _pieces(self, log_ids: Iterable[str]) -> Iterator[pa.Table]:
        schema = LOGS.schema()
        yield schema.empty_table()
        # Stored rows that follow each other have the same distance to their places in the new table.
        places = [(log_id, self._places.get(log_id)) for log_id in log_ids]
        runs = groupby(enumerate(places), key=lambda one: None if one[1][1] is None else one[0] - one[1][1])
        for distance, run in runs:
            ids = [log_id for _, (log_id, _) in run]
            if distance is None:
                yield pa.Table.from_pylist([self._rows[log_id] for log_id in ids], schema=schema)
            else:
                yield self._stored.slice(self._places[ids[0]], len(ids))


def _with_columns(stored: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of now: another version may have stored less."""
    return stored if stored.schema.equals(schema) else pa.Table.from_pylist(stored.to_pylist(), schema=schema)


def stored_logs(state: State) -> pa.Table:
    """The rows of `logs` in a state, as they are stored."""
    # Neither threads nor read-ahead: worker processes may be forked after this.
    return pq.ParquetFile(state.path / "logs" / LOGS_PART, pre_buffer=False).read(use_threads=False)


def rows_of_logs(state: State) -> dict[str, Row]:
    """The rows of `logs` in a state, by log_id."""
    rows: list[Row] = stored_logs(state).to_pylist()
    return {row["log_id"]: row for row in rows}
