"""The folder of an export: it appears whole, and takes the place of nothing but an earlier export."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from turnlake.errors import UsageError
from turnlake.files import make_folder

MANIFEST = "manifest.json"
MADE_BY = "turnlake export"


@contextmanager
def new_folder(target: Path, lake: Path) -> Iterator[Path]:
    """An empty folder beside the target, which becomes the target when the block ends well.

    UsageError where the target is, or is in, the lake, or holds anything but an earlier export.
    """
    # A link to a folder stays; what it leads to is replaced.
    target = target.expanduser().resolve()
    check(target, lake.expanduser().resolve())
    work = target.with_name(f".{target.name}.export-{os.getpid()}")
    try:
        _sweep(target)
        make_folder(work)
        yield work
        check(target, lake.expanduser().resolve())
        _put(work, target)
    except OSError as error:
        if not isinstance(error.filename, str) or not Path(error.filename).is_relative_to(target.parent):
            raise
        raise UsageError(f"{target} can't be written ({error.strerror}): name another folder") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check(target: Path, lake: Path) -> None:
    """Raises UsageError where the target can't become an export. Both paths are absolute, without links."""
    if target.is_relative_to(lake):
        raise UsageError(f"{target} is in the lake: name a folder outside {lake}")
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise UsageError(f"{target} is no folder: name another")
    names = [str(path.relative_to(target)) for path in sorted(target.rglob("*")) if not path.is_dir()]
    if names and (foreign := sorted({*names} - _files_of(target / MANIFEST))):
        raise UsageError(f"{target} holds {foreign[0]}, which is of no export: name an empty folder, or a new one")


def _files_of(manifest: Path) -> set[str]:
    """The files that an export's manifest names, itself included; none where it is no such manifest."""
    try:
        content: Any = orjson.loads(manifest.read_bytes())
        if content["made_by"] != MADE_BY:
            return set()
        return {MANIFEST, *(file["path"] for table in content["tables"].values() for file in table["files"])}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return set()


def _put(work: Path, target: Path) -> None:
    """Puts the folder in place by a rename; one that was there leaves by another just before."""
    if not target.is_dir():
        work.rename(target)
        return
    before = target.with_name(f".{target.name}.export-{os.getpid()}-before")
    target.rename(before)
    work.rename(target)
    shutil.rmtree(before)


def _sweep(target: Path) -> None:
    """Removes what killed exports to this target left."""
    for left in target.parent.glob(f".{_literal(target.name)}.export-*"):
        process = left.name.rpartition(".export-")[2].partition("-")[0]
        if process.isdecimal() and not _is_running(int(process)):
            shutil.rmtree(left)


def _literal(name: str) -> str:
    """The name as a pattern of `glob` that means itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _is_running(process: int) -> bool:
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
