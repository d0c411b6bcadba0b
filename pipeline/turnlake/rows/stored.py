"""The stored rows of one log, in order of lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.format.values import parse_leniently

Row = dict[str, Any]

_ROWS_AT_A_TIME = 1000


def sorted_rows(parts: Iterable[Path], log_id: str, columns: Sequence[str]) -> pa.Table:
    """The rows of one log in order of lines, in Arrow: as dicts those of a long log would take ten times as much."""
    pieces = [piece for part in parts for piece in _rows_in(part, log_id, list(columns))]
    return pa.concat_tables(pieces).sort_by("line")


def _rows_in(part: Path, log_id: str, columns: list[str]) -> Iterator[pa.Table]:
    """The rows of one log in a part; what has none of them is read no further than to know."""
    import pyarrow.compute as pc

    with pq.ParquetFile(part) as file:
        yield file.read_row_groups([], columns=columns)
        for number in range(file.num_row_groups):
            is_its = pc.equal(file.read_row_group(number, columns=["log_id"])["log_id"], log_id)
            if pc.any(is_its).as_py():
                yield file.read_row_group(number, columns=columns).filter(is_its)


def dicts(rows: pa.Table) -> Iterator[Row]:
    """Rows as mappings, some at a time."""
    for batch in rows.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        yield from batch.to_pylist()


def parse(text: str | bytes) -> Any:
    """A stored JSON text, as it was read."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return parse_leniently(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
