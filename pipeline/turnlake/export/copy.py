"""A state of the lake -> a folder to share: raw tables, marts, and a manifest of what was done."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from turnlake import __version__
from turnlake.export.columns import COLUMNS
from turnlake.export.metrics import Metrics
from turnlake.export.redact import Redaction
from turnlake.export.snapshot import Snapshot, snapshot
from turnlake.export.streams import redacted_lines
from turnlake.export.target import MADE_BY, MANIFEST, new_folder
from turnlake.files import make_folder
from turnlake.hashing import Hasher
from turnlake.rows.tables import LAKE_FORMAT, TABLES, Table
from turnlake.rows.writer import COMPRESSION_LEVEL, parquet_writer

Mode = Literal["plain", "metrics-only", "redacted"]
# A row group of a mart is closed at either.
_GROUP_ROWS = 64 << 10
_GROUP_BYTES = 16 << 20

ABOUT = {
    "plain": "An exact copy. It holds all that the logs hold: messages, arguments, results, paths.",
    "metrics-only": "No text that anyone wrote. Names that are not well known, paths and ids are hashes (h_…) under "
    "a key that is not in here; equal texts have equal hashes in all tables.",
    "redacted": "Whole but for what looks like a known form of secret, which reads [REDACTED:form]. Anything else, "
    "secrets of other forms included, is as it was.",
}


class Change(Protocol):
    """What an export does to the rows of a table, named with its schema."""

    def columns(self, table: str, names: list[str]) -> list[str]:
        """Those of the columns that are exported."""

    def batch(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows with those columns."""


@dataclass
class Written:
    """What was written of a table: its files (path in the export, rows, bytes, SHA-256), and its columns left out."""

    files: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def export(
    lake: Path,
    target: Path,
    *,
    hasher: Hasher | None = None,
    redact: bool = False,
    memory: str | None = None,
    threads: int | None = None,
    on_table: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Writes the published state to `target`: metrics only with a hasher, redacted with `redact`; returns the manifest.

    `on_table` is called with 1 for each table done. Raises LakeError without a lake, UsageError where the
    target can't be used.
    """
    with new_folder(target, lake) as work:
        spill = work / ".spill"
        with snapshot(lake, spill, memory, threads) as state:
            change = _change(state, hasher, redact)
            mode: Mode = "metrics-only" if hasher else "redacted" if redact else "plain"
            tables = {}
            for name, written in chain(_raw(state, work, change), write_marts(state, work, change)):
                tables[name] = written
                on_table(1)
            manifest = _manifest(mode, state, tables)
        if hasher:
            manifest["key_id"] = hasher.key_id
        if isinstance(change, Redaction):
            manifest["redacted"] = {table: dict(sorted(n.items())) for table, n in sorted(change.counts.items()) if n}
        shutil.rmtree(spill, ignore_errors=True)
        (work / MANIFEST).write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2) + b"\n")
    return manifest


def unclassified(table: str, columns: Iterable[str]) -> list[str]:
    """The columns that a metrics-only export leaves out because nothing is declared about them."""
    return [name for name in columns if name not in COLUMNS.get(table, {})]


def _change(state: Snapshot, hasher: Hasher | None, redact: bool) -> Change | None:
    if hasher:
        return Metrics(hasher)
    return Redaction(redacted_lines(state.db, state.state.part_files("chunk_runs"))) if redact else None


def _raw(state: Snapshot, work: Path, change: Change | None) -> Iterator[tuple[str, Written]]:
    """The raw tables, file by file as they are in the state; one that does not change is copied byte by byte."""
    for table in TABLES.values():
        name = f"raw.{table.name}"
        make_folder(work / "raw" / table.name)
        exported = change.columns(name, list(table.names)) if change else list(table.names)
        written = Written(left_out=[column for column in table.names if column not in exported])
        for source in state.state.part_files(table.name):
            target = work / "raw" / table.name / source.name
            if change:
                _rewrite(source, target, _only(table, exported), change)
            else:
                shutil.copyfile(source, target)
            written.files.append(_described(target, work))
        yield name, written


def _rewrite(source: Path, target: Path, table: Table, change: Change) -> None:
    with pq.ParquetFile(source) as file:
        # A file of an older version may lack a column that was added since.
        table = _only(table, file.schema_arrow.names)
        with parquet_writer(target, table) as writer:
            for number in range(file.num_row_groups):
                writer.write_table(change.batch(f"raw.{table.name}", file.read_row_group(number)).cast(table.schema()))


def _only(table: Table, names: list[str]) -> Table:
    return replace(table, columns=tuple(column for column in table.columns if column.name in names))


def write_marts(state: Snapshot, work: Path, change: Change | None) -> Iterator[tuple[str, Written]]:
    """The marts, a file each, rows in order of the key."""
    keys = state.keys()
    make_folder(work / "marts")
    for mart, columns in state.marts().items():
        name = f"marts.{mart}"
        exported = change.columns(name, columns) if change else columns
        if exported:
            target = work / "marts" / f"{mart}.parquet"
            key = [column for column in keys.get(name, []) if column in columns]
            pieces = state.rows(mart, exported, key)
            _write(target, (change.batch(name, rows) for rows in pieces) if change else pieces)
            files = [_described(target, work)]
        yield name, Written(files if exported else [], [column for column in columns if column not in exported])


def _write(target: Path, pieces: Iterator[pa.Table]) -> None:
    """The pieces, at least one, as one file."""
    first = next(pieces)
    writer = pq.ParquetWriter(
        target, first.schema, compression="zstd", compression_level=COMPRESSION_LEVEL, write_page_checksum=True
    )
    with closing(writer):
        for group in _groups(chain((first,), pieces)):
            writer.write_table(group)


def _groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The pieces, as many in one as make a row group."""
    group: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        group.append(piece)
        rows, size = rows + piece.num_rows, size + piece.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.concat_tables(group)
            group, rows, size = [], 0, 0
    if group:
        yield pa.concat_tables(group)


def _described(file: Path, work: Path) -> dict[str, Any]:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return {
        "path": file.relative_to(work).as_posix(),
        "rows": pq.read_metadata(file).num_rows,
        "bytes": file.stat().st_size,
        "sha256": digest,
    }


def _manifest(mode: Mode, state: Snapshot, tables: dict[str, Written]) -> dict[str, Any]:
    """No instant and no path: equal lakes, keys and options give equal bytes."""
    return {
        "made_by": MADE_BY,
        "turnlake": __version__,
        "mode": mode,
        "about": ABOUT[mode],
        "state": state.state.id,
        "lake_format": LAKE_FORMAT,
        "currency": state.currency,
        "tables": {
            name: {
                "rows": sum(file["rows"] for file in written.files),
                "files": written.files,
                "left_out": written.left_out,
                **(
                    {"unclassified": unknown}
                    if mode == "metrics-only" and (unknown := unclassified(name, written.left_out))
                    else {}
                ),
            }
            for name, written in tables.items()
        },
    }
