"""Opening a log: read-only, never anything but a regular file, and how its lines are stored."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import tempfile
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from turnlake.logs.archive import open_entry

if TYPE_CHECKING:
    from turnlake.logs.discover import LogFile

Container = Literal["raw", "zstd"]

BUFFER_BYTES = 2**20
SPOOLED_BYTES = 64 * 2**20
_ZSTD_SUFFIXES = (".zstd", ".zst")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

# Without O_NONBLOCK the open itself would wait for the writer of a fifo put in the file's place. O_BINARY is Windows'.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_log(log: LogFile) -> BinaryIO:
    """The bytes of a log as stored, buffered; of a log in an archive its entry's content, forward only.

    OSError where the file is gone, unreadable or no regular file any more, or the archive entry is damaged.
    """
    file = open_regular(log.os_path)
    if log.entry is None:
        return file
    entry = open_entry(file, log.entry)
    return _seekable(entry) if log.entry.endswith(_ZSTD_SUFFIXES) else entry


def _seekable(entry: BinaryIO) -> BinaryIO:
    """The content of an entry where one can go back, as frames are walked twice; no harness writes such entries."""
    copy = tempfile.SpooledTemporaryFile(max_size=SPOOLED_BYTES)  # noqa: SIM115 - the caller closes it
    with entry:
        shutil.copyfileobj(entry, copy)
    copy.seek(0)
    return cast(BinaryIO, copy)


def container_of(log: LogFile) -> Container:
    """How the lines of a log are stored, told by its name; by its first bytes where the name does not tell.

    OSError where those bytes can't be read.
    """
    name = log.entry or log.os_path
    if name.endswith(_ZSTD_SUFFIXES):
        return "zstd"
    if name.endswith(".jsonl"):
        return "raw"
    with open_log(log) as file:
        return "zstd" if file.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC else "raw"


def open_regular(path: str) -> BinaryIO:
    """A regular file, read-only and buffered. OSError for anything else, without waiting for it."""
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return io.BufferedReader(io.FileIO(descriptor), BUFFER_BYTES)
    except OSError:
        os.close(descriptor)
        raise
