"""Parts of the state before that a new one reuses: linked as they are, or written again without some logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.files import link_or_copy
from turnlake.rows.stored import runs_of_logs, slices
from turnlake.rows.tables import CHUNK_RUNS, EVENTS, FINDINGS, Table
from turnlake.rows.writer import parquet_writer

# The tables whose rows stand still once written.
LASTING = (EVENTS, CHUNK_RUNS, FINDINGS)
# Above this many small parts they are merged: each scan opens every part.
MOST_SMALL_PARTS = 32
SMALL_BYTES = 4 << 20


def reuse_part(
    name: str, before: Path, work: Path, dropped: Collection[str], without_findings: Collection[str], new_name: str
) -> None:
    """Put a part of the state in folder `before` below work: a link where nothing is left out.

    Left out are the rows of the logs in dropped, and the findings of those in without_findings.
    """
    for table in LASTING:
        source, target = before / table.name / name, work / table.name / new_name
        left_out = without_findings if table is FINDINGS else dropped
        if left_out:
            _write(target, table, (without(rows, left_out) for rows in _row_groups(source)))
        else:
            link_or_copy(source, target)


def _rows(path: Path) -> pa.Table:
    """The rows of a file. `pq.read_table` takes as long to be loaded as these files to be read."""
    with pq.ParquetFile(path) as file:
        return file.read()


def _row_groups(path: Path) -> Iterator[pa.Table]:
    """The rows of a file in pieces: that of a long log is too big to be held whole."""
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number)


def without(rows: pa.Table, dropped: Collection[str]) -> pa.Table:
    """The rows that belong to none of these logs."""
    if not dropped or not rows.num_rows:
        return rows
    return slices(rows, runs_of_logs(rows, lambda log_id: log_id not in dropped))


def write_tail(
    name: str,
    before: Path | None,
    parts: Sequence[str],
    work: Path,
    dropped: Collection[str],
    without_findings: Collection[str],
    not_new: Collection[str],
) -> None:
    """Write the part that holds what the next reading of a log replaces.

    It has the rows of the state in folder `before`, without those of the logs in dropped (findings: without_findings),
    and the new rows of these parts, without those of the logs in not_new.
    """
    for table in LASTING:
        left_out = without_findings if table is FINDINGS else dropped
        old = [] if before is None else [without(_rows(before / table.name / name), left_out)]
        new = [without(_rows(work / "tail" / table.name / part), not_new) for part in parts]
        _write(work / table.name / name, table, [*old, *new])


def merge_parts(names: Iterable[str], merged: str, work: Path) -> None:
    """Put the rows of some parts below work into one part, and remove them."""
    names = list(names)
    for table in LASTING:
        folder = work / table.name
        _write(folder / merged, table, (_rows(folder / name) for name in names))
        for name in names:
            (folder / name).unlink()


def small_parts(names: Iterable[str], work: Path) -> list[str]:
    """The parts that are worth merging; none while there are few."""
    sizes = {name: sum((work / table.name / name).stat().st_size for table in LASTING) for name in names}
    small = sorted(name for name, size in sizes.items() if size < SMALL_BYTES)
    return small if len(small) > MOST_SMALL_PARTS else []


def _write(path: Path, table: Table, pieces: Iterable[pa.Table]) -> None:
    schema = table.schema()
    with parquet_writer(path, table) as writer:
        for piece in pieces:
            if piece.num_rows:
                writer.write_table(piece if piece.schema.equals(schema) else piece.cast(schema))
