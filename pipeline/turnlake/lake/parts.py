"""The Parquet files of a state: which they are, and the state's name, which their content decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from turnlake.errors import TurnlakeError
from turnlake.files import link_or_copy, to_disk
from turnlake.rows.tables import TABLES


class Part(NamedTuple):
    """A Parquet file of a state: its table, its name, its size in bytes, the SHA-256 of its content in hex."""

    table: str
    name: str
    bytes: int
    sha256: str


def state_id(parts: Iterable[Part]) -> str:
    """The name of the state these parts make up: 16 hex digits, the same for the same files."""
    digest = hashlib.sha256()
    for part in sorted(parts):
        digest.update("\0".join(map(str, part)).encode() + b"\n")
    return digest.hexdigest()[:16]


def describe_parts(folder: Path, before: Iterable[Part], before_folder: Path) -> list[Part]:
    """The parts below folder, sorted. Each is private and on disk afterwards.

    `before` are the parts of the state before, which lies in before_folder. A file that is also one of them is not
    read again; a file that equals one becomes a link to it. TurnlakeError when a table has no part.
    """
    known = _Known(before, before_folder)
    parts = []
    for table in TABLES:
        files = sorted((folder / table).glob("*.parquet"))
        if not files:
            raise TurnlakeError(f"{folder / table} holds no Parquet file: every table has one, perhaps without rows")
        parts += [known.describe(table, file) for file in files]
        to_disk(folder / table)
    return sorted(parts)


class _Known:
    """The parts of the state before, by the file they are and by their content."""

    def __init__(self, parts: Iterable[Part], folder: Path) -> None:
        self._by_file: dict[tuple[int, int], Part] = {}
        self._by_content: dict[tuple[int, str], Path] = {}
        for part in parts:
            path = folder / part.table / part.name
            self._by_file[_identity(path)] = part
            self._by_content[part.bytes, part.sha256] = path

    def describe(self, table: str, path: Path) -> Part:
        if part := self._by_file.get(_identity(path)):
            return Part(table, path.name, part.bytes, part.sha256)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        part = Part(table, path.name, path.stat().st_size, digest)
        if same := self._by_content.get((part.bytes, digest)):
            link_or_copy(same, path)
        else:
            path.chmod(0o600)
            to_disk(path)
        return part


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino
