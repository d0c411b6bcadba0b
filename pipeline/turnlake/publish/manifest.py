"""What a published lake says of itself: which files make up one state of it, and which made up the one before.

Files are named by their content, so that those of two states lie side by side, and one that stays is not sent again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from turnlake import __version__
from turnlake.errors import UsageError
from turnlake.publish.target import UNFINISHED
from turnlake.rows.tables import LAKE_FORMAT, TABLES

MANIFEST = "manifest.json"
MADE_BY = "turnlake publish"
# What the manifest names; beside it lie the folders of tables for those who read by glob.
FILES = ".files"

_OURS = re.compile(
    rf"(?:{re.escape(FILES)}/)?(?:{'|'.join(TABLES)}|marts/\w+)/[\w.-]+-[0-9a-f]{{16}}\.parquet(?:{re.escape(UNFINISHED)})?",
    re.ASCII,
)


@dataclass(frozen=True, order=True)
class Published:
    """A file of a table, where it lies here and where it is published; bytes and SHA-256 of its content."""

    table: str
    name: str
    source: Path
    bytes: int
    sha256: str

    @property
    def in_folder(self) -> str:
        """Its key in the folder of its table, which globs read."""
        return f"{self.table.removeprefix('raw.').replace('.', '/')}/{self.name}-{self.sha256[:16]}.parquet"

    @property
    def path(self) -> str:
        """Its key as the manifest names it."""
        return f"{FILES}/{self.in_folder}"


def is_ours(key: str) -> bool:
    """Whether an object of that key is one that publishing writes, so that it may remove it."""
    return _OURS.fullmatch(key) is not None or key in (MANIFEST, MANIFEST + UNFINISHED)


def make_manifest(
    files: Iterable[Published], state: str, currency: str, before: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The manifest of these files. It holds no instant and no path of this machine."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(files):
        entry = {"path": file.path, "in_folder": file.in_folder, "bytes": file.bytes, "sha256": file.sha256}
        tables.setdefault(file.table, []).append(entry)
    facts = {"state": state, "lake_format": LAKE_FORMAT, "currency": currency, "tables": tables}
    return {
        "made_by": MADE_BY,
        "turnlake": __version__,
        "id": hashlib.sha256(orjson.dumps(facts)).hexdigest()[:16],
        **facts,
        "before": before and {"id": before["id"], "paths": sorted(paths_of(before))},
    }


def paths_of(manifest: Mapping[str, Any]) -> set[str]:
    """The keys of the files that a manifest names."""
    return {file["path"] for files in manifest["tables"].values() for file in files}


def keys_to_keep(manifest: Mapping[str, Any]) -> set[str]:
    """All keys that readers of this manifest, of the one before, or of the folders need."""
    folders = {file["in_folder"] for files in manifest["tables"].values() for file in files}
    before = manifest["before"]["paths"] if manifest["before"] else ()
    return {MANIFEST, *paths_of(manifest), *folders, *before}


def dump_manifest(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as it is written."""
    return orjson.dumps(manifest, option=orjson.OPT_INDENT_2) + b"\n"


def read_manifest(data: bytes, url: str) -> dict[str, Any]:
    """A manifest as it was written. UsageError for any other document."""
    try:
        manifest: dict[str, Any] = orjson.loads(data)
        if manifest["made_by"] == MADE_BY and isinstance(manifest["id"], str) and keys_to_keep(manifest):
            return manifest
    except (ValueError, TypeError, KeyError):
        pass
    raise UsageError(f"{url}/{MANIFEST} is none that turnlake published: name another URL, or remove it")
