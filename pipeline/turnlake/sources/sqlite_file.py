"""Opening an SQLite database as it stands, without a lock on it and without a file beside it.

SQLite itself would lock the file and, in WAL mode, write beside it. A database at rest is opened as one that never
changes, and it is checked afterwards that it did not. One with a journal or a write-ahead log that may hold changes is
copied with those, and SQLite recovers the copy.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.util import Finalize
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from turnlake.sources.container import open_regular
from turnlake.sources.remote import Unreached

_SIDECARS = ("-wal", "-journal")
_WAL_HEADER = 32
# What a disk keeps free when a database is copied to it, and how often a copy is tried.
_SPARE_BYTES = 64 << 20
_TRIES = 3


class DatabaseVersion(NamedTuple):
    """Size and time of a database and of its journal, and the header of its log: while they are equal, it is unchanged.

    The write-ahead log may grow meanwhile: what was read of it stays.
    """

    size: int
    mtime_ns: int
    journal: tuple[int, int] | None
    wal_header: bytes

    @property
    def is_at_rest(self) -> bool:
        """Whether the file by itself holds everything."""
        return not self.wal_header and (self.journal is None or self.journal[0] == 0)


class _Copy(NamedTuple):
    """A copy of a database: where it is, of which time (see `changed_at`) and made by which process."""

    path: str
    mtime_ns: int
    maker: int


# By the path of the database. Forked workers read what their parent copied.
_copies: dict[str, _Copy] = {}


def database_version(path: str) -> DatabaseVersion:
    """The version of a database now. OSError where it is no regular file that can be opened."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
    return DatabaseVersion(status.st_size, status.st_mtime_ns, _journal(path), _wal_header(path))


def changed_at(path: str) -> tuple[int, int]:
    """Bytes of a database and its write-ahead log together, and the time of the later change, Unix ns."""
    statuses = [Path(path).stat()]
    if _wal_header(path):
        statuses.append(Path(f"{path}-wal").stat())
    return sum(status.st_size for status in statuses), max(status.st_mtime_ns for status in statuses)


@contextmanager
def connected(path: str, mtime_ns: int | None = None) -> Iterator[sqlite3.Connection]:
    """A read-only connection to a database as it is now, or, where that was copied already, as it was at mtime_ns.

    Text comes as bytes, since nothing else keeps what is no UTF-8. A copy is kept until this process ends or makes a
    later one. OSError where the database is gone or changed meanwhile, Unreached where it can't be copied now,
    sqlite3.Error where it is damaged.
    """
    wanted = changed_at(path)[1] if mtime_ns is None else mtime_ns
    known, before = _copies.get(path), database_version(path)
    if known is None or known.mtime_ns < wanted:
        known = None if before.is_at_rest else _new_copy(path)
    with closing(_open(known.path if known else path)) as connection:
        yield connection
    if known is None and database_version(path) != before:
        raise OSError(errno.EBUSY, "it changed while it was read; the next build reads it again", path)


def _open(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes
    # The schema is as little to be trusted as the rows.
    for pragma in ("trusted_schema = off", "query_only = on", "cell_size_check = on", "mmap_size = 0"):
        connection.execute(f"pragma {pragma}")
    return connection


def _new_copy(path: str) -> _Copy:
    folder = tempfile.mkdtemp(prefix="turnlake-store-")
    # At the end of this process, and never of one forked from it.
    Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=0)
    # Taken before the copy is: what changes meanwhile is newer than the copy says, and is copied again.
    copy = _Copy(str(Path(folder) / "store"), changed_at(path)[1], os.getpid())
    try:
        _copy(path, copy.path)
        _settle(copy.path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    old = _copies.get(path)
    if old is not None and old.maker == os.getpid():
        shutil.rmtree(Path(old.path).parent, ignore_errors=True)
    _copies[path] = copy
    return copy


def _copy(path: str, copy: str) -> None:
    """Copy a database with its journal or log at one moment."""
    for _ in range(_TRIES):
        before = database_version(path)
        _require_space(path, copy)
        # The log comes last: while the file stands still, a log that has grown only says more.
        for suffix in ("", *_SIDECARS):
            Path(copy + suffix).unlink(missing_ok=True)
            if not suffix or Path(path + suffix).exists():
                with open_regular(path + suffix) as source, Path(copy + suffix).open("xb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        if database_version(path) == before:
            return
    raise Unreached("it changes faster than it can be copied; build again when its writer rests")


def _settle(copy: str) -> None:
    """Let SQLite roll back what was not committed, and take what is in the log into the file."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("pragma trusted_schema = off")
        connection.execute("pragma journal_mode = delete").fetchall()


def _require_space(path: str, copy: str) -> None:
    need = sum(Path(path + suffix).stat().st_size for suffix in ("", *_SIDECARS) if Path(path + suffix).exists())
    folder = Path(copy).parent
    if shutil.disk_usage(folder).free < 2 * need + _SPARE_BYTES:
        detail = f"a copy of it takes up to {2 * need} bytes, more than {folder.parent} has free; set TMPDIR"
        raise Unreached(detail)


def _journal(path: str) -> tuple[int, int] | None:
    try:
        status = Path(f"{path}-journal").stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def _wal_header(path: str) -> bytes:
    """The first bytes of the write-ahead log, which each new round of it changes; none where there is no log."""
    try:
        with open_regular(f"{path}-wal") as file:
            return file.read(_WAL_HEADER)
    except FileNotFoundError:
        return b""
