"""The stored rows of one log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.format.values import parse_leniently

Row = dict[str, Any]

_ROWS_AT_A_TIME = 1000


def runs_of_log(parts: Iterable[Path], log_id: str, columns: Sequence[str]) -> Iterator[Iterator[Row]]:
    """The rows of one log in these parts, in runs of rising lines.

    Kept in Arrow until they are asked for: as mappings those of a long log would take ten times as much.
    """
    for part in parts:
        with pq.ParquetFile(part) as file:
            for number in range(file.num_row_groups):
                # What has none of its rows is read no further than to know.
                places = runs_of_logs(file.read_row_group(number, columns=["log_id"]), lambda one: one == log_id)
                if places:
                    rows = file.read_row_group(number, columns=list(columns))
                    for start, count in places:
                        yield from _rising(rows.slice(start, count))


def _rising(rows: pa.Table) -> Iterator[Iterator[Row]]:
    """Rows of one log that lie together: of each layout those come in order of lines."""
    lines = rows["line"].to_pylist()
    starts = [0, *(at for at in range(1, len(lines)) if lines[at] < lines[at - 1]), len(lines)]
    for start, end in pairwise(starts):
        yield _dicts(rows.slice(start, end - start))


def _dicts(rows: pa.Table) -> Iterator[Row]:
    for batch in rows.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        yield from batch.to_pylist()


def runs_of_logs(rows: pa.Table, is_wanted: Callable[[str | None], bool]) -> list[tuple[int, int]]:
    """Where the rows of the wanted logs are: first row and count of each run of them.

    The rows of a log lie together, so runs are few. PyArrow's filters would do the same, and take a tenth of a second
    to import.
    """
    runs: list[tuple[int, int]] = []
    start = 0
    for log_id, run in groupby(rows["log_id"].to_pylist()):
        count = sum(1 for _ in run)
        if is_wanted(log_id):
            runs.append((start, count))
        start += count
    return runs


def slices(rows: pa.Table, runs: Iterable[tuple[int, int]]) -> pa.Table:
    """These runs of rows, in their order, each column in one piece."""
    return pa.concat_tables([rows.slice(0, 0), *(rows.slice(start, count) for start, count in runs)]).combine_chunks()


def parse(text: str | bytes) -> Any:
    """A stored JSON text, as it was read."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return parse_leniently(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
