"""How heavy the payloads of some files are, as the footers of the files tell: nothing of them is read.

DuckDB parses JSON by 2,048 rows, and reserves more than five times what these hold; of one long line up to twenty times
its length, though it uses a fifth of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from turnlake.rows.writer import GROUP_BYTES

# Rows that DuckDB parses at a time.
VECTOR = 2048
# What these rows hold of payloads too big to be held by the hundred megabytes, or beside another process.
HEAVY = 8 << 20
# What is reserved for a byte of a long line.
RESERVED = 24
_COLUMNS = ("payload", "sql_payload")


def parsed_at_once(files: Iterable[Path]) -> int:
    """The most bytes of payloads that may be parsed at a time."""
    return max((_in_a_vector(rows, size) for rows, size in _row_groups(files)), default=0)


def memory_for(parsed_bytes: int, memory_mb: int) -> str:
    """The limit as DuckDB takes it: some megabytes, and more where a line is longer than a row group."""
    beyond = max(0, parsed_bytes - GROUP_BYTES)
    return f"{memory_mb + RESERVED * beyond // 1_000_000}MB"


def _in_a_vector(rows: int, size: int) -> int:
    # A row group ends with the line that fills it: what is too much for one is that line.
    return max(size * min(rows, VECTOR) // rows, size - GROUP_BYTES)


def _row_groups(files: Iterable[Path]) -> Iterator[tuple[int, int]]:
    """Rows and bytes of payloads of each row group that has rows."""
    for file in files:
        footer = pq.read_metadata(file)
        places = [place for place, name in enumerate(footer.schema.names) if name in _COLUMNS]
        for group in map(footer.row_group, range(footer.num_row_groups)):
            if group.num_rows:
                yield group.num_rows, sum(group.column(place).total_uncompressed_size for place in places)
