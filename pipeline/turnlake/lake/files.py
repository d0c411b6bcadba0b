"""The Parquet files of a state: which they are, what they are called, and whether they are as they were written.

A state is named by the content of its files, and these never change once it is committed. So whatever differs was done
to them by a disk or by hand. Sizes are compared by every build, contents by each that goes on from the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from turnlake.errors import LakeError, TurnlakeError
from turnlake.files import link_or_copy, to_disk
from turnlake.rows.tables import TABLES

if TYPE_CHECKING:
    from turnlake.lake.manifest import Known
    from turnlake.lake.state import State

LOGS_PART = "logs.parquet"
# Findings about more than one log, or about no log at all.
FINDINGS_PART = "lake.parquet"
# What the next reading of a log replaces.
TAIL_PART = "tail.parquet"
# Parts that hold rows of any log; all others are named by the logs whose rows they hold.
SHARED_PARTS = frozenset({LOGS_PART, TAIL_PART})


def part_name(number: int) -> str:
    """The name of the part of that number."""
    return f"part-{number:05}.parquet"


def part_after(names: Iterable[str]) -> int:
    """The number of the part that follows those named."""
    return 1 + max((int(name.removeprefix("part-").removesuffix(".parquet")) for name in names), default=-1)


@dataclass(frozen=True)
class RawFiles:
    """The files that make up the raw tables of one state.

    `tables` maps the name of each raw table (logs, events, chunk_runs, findings) to the absolute paths of its
    Parquet files, in order; each has at least one, perhaps without rows. `loads` is the lake's `loads.jsonl`,
    None or absent before the first run that wrote one.
    """

    tables: Mapping[str, tuple[Path, ...]]
    loads: Path | None = None


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
    known = _PartsBefore(before, before_folder)
    parts = []
    for table in TABLES:
        files = sorted((folder / table).glob("*.parquet"))
        if not files:
            raise TurnlakeError(f"{folder / table} holds no Parquet file: every table has one, perhaps without rows")
        parts += [known.describe(table, file) for file in files]
        to_disk(folder / table)
    return sorted(parts)


class _PartsBefore:
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


def damaged_parts(state: State, *, by_content: bool) -> frozenset[Part]:
    """The files of a state that are gone or have another size or, by_content, another SHA-256.

    LakeError where its manifest can't be read.
    """
    return frozenset(
        part for part in state.parts() if _is_damaged(part, state.path / part.table / part.name, by_content)
    )


def _is_damaged(part: Part, path: Path, by_content: bool) -> bool:
    try:
        if not path.is_file() or path.stat().st_size != part.bytes:
            return True
        if not by_content:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() != part.sha256
    except OSError:
        return True  # a sector that can't be read


def logs_in(damaged: Collection[Part], logs: Mapping[str, Known]) -> frozenset[str]:
    """The log_ids whose stored rows can't be trusted any more, as these files are damaged."""
    names = {part.name for part in damaged}
    if names & SHARED_PARTS:
        return frozenset(logs)
    return frozenset(log_id for log_id, known in logs.items() if not names.isdisjoint(known.parts))


def require_whole(state: State) -> None:
    """LakeError where a file of the state is damaged: nothing may be built from it."""
    if damaged := damaged_parts(state, by_content=True):
        raise LakeError(f"{named(damaged)} not as written: a file of {state.path}. Run `turnlake build --full`.")


def named(damaged: Collection[Part]) -> str:
    """The files in words, the first three by name."""
    names = sorted(f"{part.table}/{part.name}" for part in damaged)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} {'is' if len(names) == 1 else 'are'}"
