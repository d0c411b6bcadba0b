"""Parts of the state before, carried over into a new one: linked as they are, or written again without some logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.files import link_or_copy
from turnlake.rows.tables import CHUNK_RUNS, EVENTS, FINDINGS, Table
from turnlake.rows.writer import parquet_writer

# The tables whose rows stand still once written.
LASTING = (EVENTS, CHUNK_RUNS, FINDINGS)
# Above this many small parts they are merged: each scan opens every part.
MOST_SMALL_PARTS = 32
SMALL_BYTES = 4 << 20


def carry_part(
    name: str, before: Path, work: Path, gone: Collection[str], without_findings: Collection[str], new_name: str
) -> None:
    """A part of the state in folder `before`, without the rows of the logs in gone, and the findings of others."""
    for table in LASTING:
        source, target = before / table.name / name, work / table.name / new_name
        dropped = without_findings if table is FINDINGS else gone
        if dropped:
            _write(target, table, (without(rows, dropped) for rows in _row_groups(source)))
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


def without(rows: pa.Table, gone: Collection[str]) -> pa.Table:
    """The rows that belong to none of these logs."""
    if not gone or not rows.num_rows:
        return rows
    # Loaded here: it takes a tenth of a second, which a build that leaves nothing out need not spend.
    import pyarrow.compute as pc

    is_gone = pc.is_in(rows["log_id"], pa.array(sorted(gone), pa.string()))
    return rows.filter(pc.invert(pc.fill_null(is_gone, False)))


def write_tail(
    name: str,
    before: Path | None,
    parts: Sequence[str],
    work: Path,
    gone: Collection[str],
    without_findings: Collection[str],
    not_new: Collection[str],
) -> None:
    """The part of what the next reading replaces: rows of the state before but for those of some logs, and new ones.

    Of the logs in not_new there are no new ones.
    """
    for table in LASTING:
        dropped = without_findings if table is FINDINGS else gone
        old = [] if before is None else [without(_rows(before / table.name / name), dropped)]
        new = [without(_rows(work / "tail" / table.name / part), not_new) for part in parts]
        _write(work / table.name / name, table, [*old, *new])


def merge_parts(names: Iterable[str], merged: str, work: Path) -> None:
    """Put the rows of some parts into one and remove them."""
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
    with parquet_writer(path, table) as writer:
        for piece in pieces:
            if piece.num_rows:
                writer.write_table(piece.cast(table.schema()))
