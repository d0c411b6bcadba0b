"""What a state remembers of the log files it was made from, for the next ingest.

A log is known again by its size and modification time alone. One that has grown is trusted to begin as before where
its first bytes and those before its mark are unchanged; no inode is looked at, since backups and moves change it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import orjson

from turnlake.rows import tables
from turnlake.sources.container import open_log, read_beside
from turnlake.sources.lines import Mark
from turnlake.sources.logfile import LogFile

if TYPE_CHECKING:
    from turnlake.lake.state import State

PRINT_BYTES = 4096

Change = Literal["new", "unchanged", "grown", "changed"]


class Known(NamedTuple):
    """What a state remembers of a log file; `mark` is None where reading can't go on from a place inside it.

    `parts` are the names of the parts that hold its rows, `head` and `tail` digests of its first bytes and of those
    before the mark. A file that is no log has no parts and `is_log` False.
    """

    source: str
    size: int
    mtime_ns: int
    parts: tuple[str, ...] = ()
    is_log: bool = True
    mark: Mark | None = None
    head: str = ""
    tail: str = ""


def fingerprint(file: BinaryIO, mark: Mark) -> tuple[str, str]:
    """Digests of the first bytes of an open log and of those before the mark, at most 4 KiB each."""
    count = min(PRINT_BYTES, mark.offset)
    head = read_beside(file, count, 0)
    tail = read_beside(file, count, mark.offset - count)
    return hashlib.sha256(head).hexdigest()[:32], hashlib.sha256(tail).hexdigest()[:32]


def change_of(log: LogFile, known: Known | None) -> Change:
    """What became of a log since it was read. Opens it only where size or time say that it changed."""
    if known is None:
        return "new"
    if log.size == known.size and log.mtime_ns == known.mtime_ns:
        return "unchanged"
    if log.size <= known.size or known.mark is None or log.entry is not None:
        return "changed"
    try:
        with open_log(log) as file:
            is_same = fingerprint(file, known.mark) == (known.head, known.tail)
    except OSError:
        return "changed"  # reading it will say what is wrong
    return "grown" if is_same else "changed"


def can_be_opened(log: LogFile) -> bool:
    """Whether the log can be opened now."""
    try:
        open_log(log).close()
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Manifest:
    """`logs` holds each file by its log_id, `left_out` is what discovery found besides logs, as a digest.

    `missing` are logs that were looked for and not found. `to_reread` are logs whose rows are not what reading them now
    would give: read again as soon as they can be opened. `lost` are the places of logs that were gone when their rows
    were damaged, until they are found again or purged.
    `max_line` is the longest line that was read, 0 where nothing was read yet. `same_start` holds the answers of
    comparing one log's file with another's (see `sessions.SameStart`).
    `refused_count` logs would be refused by the harness; `is_partial` says whether any was refused, torn, or has lines
    that gave no row.
    """

    logs: Mapping[str, Known] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    to_reread: frozenset[str] = frozenset()
    left_out: str = ""
    same_start: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    max_line: int = 0
    parser_version: int = field(default_factory=lambda: tables.PARSER_VERSION)
    refused_count: int = 0
    is_partial: bool = False


# By the folder of a state: its manifest as stored, and as read. A build asks several times for the same two.
_read: dict[Path, tuple[Mapping[str, Any], Manifest]] = {}


def manifest_of(state: State | None) -> Manifest:
    """What a state remembers of its files; an empty manifest where there is no state yet."""
    if state is None:
        return Manifest()
    stored = state.manifest()
    if state.path not in _read or _read[state.path][0] is not stored:
        _read[state.path] = stored, read_manifest(stored)
    return _read[state.path][1]


def dump_manifest(manifest: Manifest) -> bytes:
    """The manifest as JSON. The logs are columns, in order of log_id: 10,000 of them are quick to read."""
    return orjson.dumps(
        {
            "parser_version": manifest.parser_version,
            "left_out": manifest.left_out,
            "missing": sorted(manifest.missing),
            "to_reread": sorted(manifest.to_reread),
            "max_line": manifest.max_line,
            "same_start": sorted((*pair, answer) for pair, answer in manifest.same_start.items()),
            "lost": manifest.lost,
            "refused_count": manifest.refused_count,
            "is_partial": manifest.is_partial,
            "logs": _as_columns(manifest.logs),
        }
    )


def read_manifest(stored: Mapping[str, Any]) -> Manifest:
    """The manifest in the JSON document of a state. What an earlier version did not write is as in an empty one."""
    return Manifest(
        logs=_logs(stored["logs"]),
        missing=frozenset(stored["missing"]),
        to_reread=frozenset(stored.get("to_reread", ())),
        left_out=stored["left_out"],
        same_start={(longer, shorter): answer for longer, shorter, answer in stored.get("same_start", ())},
        max_line=stored.get("max_line", 0),
        lost=stored.get("lost", {}),
        parser_version=stored["parser_version"],
        refused_count=stored["refused_count"],
        is_partial=stored["is_partial"],
    )


def _as_columns(logs: Mapping[str, Known]) -> dict[str, list[Any]]:
    log_ids = sorted(logs)
    known = [logs[log_id] for log_id in log_ids]
    columns = zip(*known, strict=True) if known else ((),) * len(Known._fields)
    named = {name: list(column) for name, column in zip(Known._fields, columns, strict=True)}
    return {"log_id": log_ids, **named, "mark": [one.mark and tuple(one.mark) for one in known]}


def _logs(stored: Mapping[str, Any]) -> dict[str, Known]:
    if "log_id" not in stored:
        # Format 1 of the lake wrote a list for each log, with the fields in the same order.
        return {log_id: _known(*fields) for log_id, fields in stored.items()}
    marks = (mark and Mark._make(mark) for mark in stored["mark"])
    columns = {**stored, "parts": map(tuple, stored["parts"]), "mark": marks}
    known = map(Known._make, zip(*(columns[name] for name in Known._fields), strict=True))
    return dict(zip(stored["log_id"], known, strict=True))


def _known(source: str, size: int, mtime_ns: int, parts: list[str], is_log: bool, *_: Any) -> Known:
    # Without a mark it is read from its start, as every log of an older format is.
    return Known(source, size, mtime_ns, tuple(parts), is_log)
