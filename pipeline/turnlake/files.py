"""Files of the lake: private whatever the umask, each there whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

# What file systems answer that have no hard links, or no more of them for this file.
_CANT_LINK = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}


def make_folder(folder: Path) -> None:
    """Make the folder, readable by its owner only, where it is not there; one that is there stays as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(0o700)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of the file, created readable by its owner only. Child programs do not inherit it."""
    descriptor = os.open(path, flags | os.O_CREAT, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def write_whole(path: Path, data: bytes) -> None:
    """Replace the content of a small file: whoever reads it, also after a crash, sees the old or the new one."""
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(open_private(new, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)
    to_disk(new)
    new.replace(path)
    to_disk(path.parent)


def to_disk(path: Path) -> None:
    """Return when what was written to a file, or the entries of a folder, would survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_or_copy(source: Path, target: Path) -> None:
    """Make target the same file as source, or a private copy where the file system has no hard links.

    A file that was target before is replaced at once; a half-made copy never has target's name.
    """
    new = target.with_name(f"{target.name}.new")
    new.unlink(missing_ok=True)
    try:
        new.hardlink_to(source)
    except OSError as error:
        if error.errno not in _CANT_LINK:
            raise
        shutil.copyfile(source, new)
        new.chmod(0o600)
    new.replace(target)
    # Replacing a name of a file by another name of the same file leaves both.
    new.unlink(missing_ok=True)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both names are there and stand for one file."""
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False
