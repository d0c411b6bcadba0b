"""Opening a log: read-only, never anything but a regular file, and how its lines are stored."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import tempfile
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from turnlake.sources.archive import open_entry
from turnlake.sources.frames import MAGIC
from turnlake.sources.lines import MAX_LINE
from turnlake.sources.remote import ObjectReader, Place, StoreError, Unreached, is_url, open_object

if TYPE_CHECKING:
    from turnlake.sources.logfile import LogFile
    from turnlake.sources.remote import Access

Container = Literal["raw", "zstd", "sqlite"]

BUFFER_BYTES = 2**20
SPOOLED_BYTES = 64 * 2**20
_ZSTD_SUFFIXES = (".zstd", ".zst")
SQLITE_MAGIC = b"SQLite format 3\x00"

# Without O_NONBLOCK the open itself would wait for the writer of a fifo put in the file's place. O_BINARY is Windows'.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_log(log: LogFile, max_line: int = MAX_LINE) -> BinaryIO:
    """The bytes of a log as stored, buffered; of a log in an archive its entry's content, forward only.

    Of a session in an SQLite store the lines made of its rows, forward only; no row is decompressed beyond max_line.
    OSError where the file is gone, unreadable or no regular file any more, or the archive entry is damaged; Unreached
    where an object store does not give it.
    """
    if log.is_in_store:
        from turnlake.sources.sqlite import open_session

        return open_session(log.os_path, log.entry or "", log.mtime_ns, max_line)
    file = open_at(log.os_path, log.access)
    if log.entry is not None and isinstance(file, ObjectReader):
        file = _fetched(file)
    if log.entry is None:
        return file
    entry = open_entry(file, log.entry)
    return _seekable(entry) if log.entry.endswith(_ZSTD_SUFFIXES) else entry


def open_at(os_path: str, access: Access = ()) -> BinaryIO:
    """The file at a path, or the object at a URL. OSError as `open_log`."""
    return open_object(Place(os_path, access)) if is_url(os_path) else open_regular(os_path)


def read_beside(file: BinaryIO, count: int, offset: int) -> bytes:
    """So many bytes of an open file from there, not through its buffer, which would be filled far beyond them."""
    return file.read_at(count, offset) if isinstance(file, ObjectReader) else os.pread(file.fileno(), count, offset)


def _fetched(archive: ObjectReader) -> BinaryIO:
    """A copy of an archive: zipfile would ask for it in small pieces, and a failure among them look like damage."""
    try:
        return _seekable(archive)
    except StoreError as error:
        raise Unreached(str(error.strerror)) from error


def _seekable(entry: BinaryIO) -> BinaryIO:
    """A copy of what comes forward only, or dearly, where one can go back."""
    copy = tempfile.SpooledTemporaryFile(max_size=SPOOLED_BYTES)  # noqa: SIM115 - the caller closes it
    with entry:
        shutil.copyfileobj(entry, copy)
    copy.seek(0)
    return cast(BinaryIO, copy)


def container_of(log: LogFile) -> Container:
    """How the lines of a log are stored, told by its name; by its first bytes where the name does not tell.

    OSError where those bytes can't be read.
    """
    if log.is_in_store:
        return "sqlite"
    name = log.entry or log.os_path
    if name.endswith(_ZSTD_SUFFIXES):
        return "zstd"
    if name.endswith(".jsonl"):
        return "raw"
    with open_log(log) as file:
        return "zstd" if file.read(len(MAGIC)) == MAGIC else "raw"


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
