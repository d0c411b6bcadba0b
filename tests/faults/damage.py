"""Ways to spoil a file of a lake, and which files there are to spoil."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def vanish(path: Path) -> None:
    """It is gone."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def cut(path: Path) -> None:
    """Its second half is gone; the inode stays, so all its names see it."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def rot(path: Path) -> None:
    """Bytes all over it are others; size and time stay."""
    data, times = bytearray(path.read_bytes()), path.stat()
    for at in range(len(data) % 7, len(data), max(1, len(data) // 40)):
        data[at] ^= 0xFF
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


WAYS: tuple[Callable[[Path], None], ...] = (vanish, cut, rot)
SMALL_FILES = ("format", "loads.jsonl", ".states/current", ".states/published.json", ".states/summary.json")


def state_folder(lake: Path) -> Path:
    """The folder of the newest state."""
    pointer = json.loads((lake / ".states" / "current").read_bytes())
    return lake / ".states" / str(pointer["state"])


def spoilable(lake: Path) -> dict[str, Path]:
    """Every file and folder of a lake that a build relies on, by a name that is the same for all lakes."""
    state = state_folder(lake)
    parts = {f"state/{path.relative_to(state)}": path for path in sorted(state.rglob("*")) if path.suffix == ".parquet"}
    tables = {f"folder {table}": lake / table for table in ("logs", "events", "chunk_runs", "findings")}
    small = {name: lake / name for name in SMALL_FILES if (lake / name).exists()}
    more = {"manifest": state / "manifest.json", "state": state, "database": lake / "turnlake.duckdb"}
    return {**small, **parts, **tables, **more}
