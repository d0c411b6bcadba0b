"""What a state remembers of the files it was made from, for the next ingest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from turnlake.lake.checkpoints import Known
from turnlake.rows import tables
from turnlake.sources.lines import Mark


@dataclass(frozen=True)
class Manifest:
    """`logs` tells of each file by its log_id, `left_out` is what discovery found besides logs, as a digest.

    `due` are logs whose rows are not what reading them now would give: read again as soon as they can be opened.
    `max_line` is the longest line that was read, 0 where nothing was read yet. `same_start` holds the answers of
    comparing one log's file with another's (see `sessions.SameStart`).
    `lost` are the places of logs that were gone when their rows were damaged, until they are found again or purged.
    `refused_count` logs would be refused by the harness; `is_partial` says whether any was refused, torn, or has lines
    that gave no row.
    """

    logs: Mapping[str, Known] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    due: frozenset[str] = frozenset()
    left_out: str = ""
    same_start: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    max_line: int = 0
    parser_version: int = field(default_factory=lambda: tables.PARSER_VERSION)
    refused_count: int = 0
    is_partial: bool = False


def dump_manifest(manifest: Manifest) -> bytes:
    """The manifest as JSON; one flat list a file keeps 10,000 of them quick to read."""
    logs = {
        log_id: [*known[:5], known.mark and tuple(known.mark), *known[6:]] for log_id, known in manifest.logs.items()
    }
    return orjson.dumps(
        {
            "parser_version": manifest.parser_version,
            "left_out": manifest.left_out,
            "missing": sorted(manifest.missing),
            "due": sorted(manifest.due),
            "max_line": manifest.max_line,
            "same_start": sorted((*pair, answer) for pair, answer in manifest.same_start.items()),
            "lost": manifest.lost,
            "refused_count": manifest.refused_count,
            "is_partial": manifest.is_partial,
            "logs": logs,
        }
    )


def read_manifest(stored: Mapping[str, Any]) -> Manifest:
    """The manifest in the JSON document of a state. What an earlier version did not write yet is as in an empty one."""
    return Manifest(
        logs={log_id: _known(*fields) for log_id, fields in stored["logs"].items()},
        missing=frozenset(stored["missing"]),
        due=frozenset(stored.get("due", ())),
        left_out=stored["left_out"],
        same_start={(longer, shorter): answer for longer, shorter, answer in stored.get("same_start", ())},
        max_line=stored.get("max_line", 0),
        lost=stored.get("lost", {}),
        parser_version=stored["parser_version"],
        refused_count=stored["refused_count"],
        is_partial=stored["is_partial"],
    )


def _known(
    source: str, size: int, mtime_ns: int, parts: list[str], is_log: bool, mark: list[int] | None, head: str, tail: str
) -> Known:
    return Known(source, size, mtime_ns, tuple(parts), is_log, None if mark is None else Mark(*mark), head, tail)
