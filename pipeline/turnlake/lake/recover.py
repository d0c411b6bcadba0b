"""The small files that lead to a state, made anew where they are damaged: from the states, which bear all that counts.

A damaged pointer, a state that is gone, or one whose manifest can't be read: the newest state that is whole takes its
place, and what was read since is read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from turnlake.errors import LakeError
from turnlake.files import write_whole
from turnlake.lake.published import read_record
from turnlake.rows.tables import LAKE_FORMAT

STATE_ID = re.compile(r"[0-9a-f]{16}")


def recover(states: Path, on_damage: Callable[[str], None]) -> None:
    """Mend `format`, `current` and `published.json` of the lake that the folder `states` belongs to, if they need it.

    Nothing is done to a lake without `format` and `current`: its first build died.
    """
    _mend_record(states / "published.json", on_damage)
    pointer = read_pointer(states / "current")
    number = states.parent / "format"
    if pointer is not None and not _is_number(number):
        on_damage(f"{number} was damaged: it is {pointer['format']} again")
        write_whole(number, b"%d\n" % pointer["format"])
    if not number.exists() or (pointer is not None and _has_manifest(states / pointer["state"])):
        return
    whole = [path for path in states.iterdir() if STATE_ID.fullmatch(path.name) and _has_manifest(path)]
    if whole:
        newest = max(whole, key=lambda path: ((path / "manifest.json").stat().st_mtime_ns, path.name))
        on_damage(f"the newest state of {states} can't be read: going on from {newest.name}, which may be older")
        written = pointer["format"] if pointer is not None else min(int(number.read_text("ascii")), LAKE_FORMAT)
        write_whole(states / "current", orjson.dumps({"state": newest.name, "format": written}))


def read_pointer(path: Path) -> dict[str, Any] | None:
    """State and format that the pointer at path names; None where it is not there or names none."""
    try:
        pointer = orjson.loads(path.read_bytes())
        if STATE_ID.fullmatch(pointer["state"]) and isinstance(pointer["format"], int):
            return {"state": pointer["state"], "format": pointer["format"]}
    except (OSError, ValueError, TypeError, KeyError):
        pass  # as good as none
    return None


def _mend_record(path: Path, on_damage: Callable[[str], None]) -> None:
    try:
        read_record(path)
    except LakeError:
        on_damage(f"{path} was damaged: the database is built anew")
        path.unlink()


def _is_number(path: Path) -> bool:
    try:
        return path.read_text(encoding="ascii").strip().isdecimal()
    except (OSError, ValueError):
        return False


def _has_manifest(state: Path) -> bool:
    try:
        return isinstance(orjson.loads((state / "manifest.json").read_bytes()), dict)
    except (OSError, ValueError):
        return False
