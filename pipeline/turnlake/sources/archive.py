"""The logs inside an export ZIP. Entry names are text only: they never become a path on disk."""

from __future__ import annotations

import errno
import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, BinaryIO, NamedTuple

from turnlake.findings import Finding
from turnlake.sources.logfile import generation_of
from turnlake.sources.remote import StoreError

ABSURD_RATIO = 1000
ABSURD_BYTES = 2**30

# All that zipfile and its decompressors are known to raise on a damaged or hostile archive.
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError, KeyError, struct.error)

_ENTRY = re.compile(r"(?:subagents/(?!\.{1,2}/)[^/\\\x00-\x1f]+/)?([^/]+)", re.DOTALL)
_ENCRYPTED = 0x1 | 0x40
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}


class Entry(NamedTuple):
    """A log in an archive: its entry name and the size of its content in bytes, as the archive states it."""

    name: str
    size: int


class Listing(NamedTuple):
    """What an archive holds: its logs, and findings with the entry each is about (None: the archive itself)."""

    entries: tuple[Entry, ...]
    findings: tuple[tuple[str | None, Finding], ...]


def list_entries(file: BinaryIO) -> Listing:
    """The logs of an export ZIP in order of name; nothing is decompressed. What can't be read is a finding.

    StoreError where an object store fails meanwhile, which says nothing about the archive.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
    except (*_DAMAGE, OSError) as error:
        # zipfile takes a failure to read for damage.
        for cause in (error, error.__context__):
            if isinstance(cause, StoreError):
                raise cause from error
        return Listing((), ((None, Finding("archive_unreadable", f"not a readable ZIP: {error}")),))
    logs: dict[str, zipfile.ZipInfo] = {}
    findings: list[tuple[str | None, Finding]] = []
    for info in infos:
        name = info.orig_filename
        if not is_log_entry(name):
            if not _is_other_content(name):
                findings.append((name, Finding("ignored_file", "an export holds no log under this name")))
            continue
        if name in logs:
            findings.append((name, Finding("archive_duplicate_entry", "the last entry of this name is read")))
        logs[name] = info
    findings += [(name, finding) for name, info in logs.items() for finding in _objections(info)]
    refused = {name for name, finding in findings if finding.code != "archive_duplicate_entry"}
    entries = [Entry(name, info.file_size) for name, info in sorted(logs.items()) if name not in refused]
    return Listing(tuple(entries), tuple(findings))


def is_log_entry(name: str) -> bool:
    """Whether an export keeps a log under that entry name: the root session's, or that of one of its subagents."""
    match = _ENTRY.fullmatch(name)
    return match is not None and generation_of(match[1]) is not None


def _is_other_content(name: str) -> bool:
    return name.endswith("/") or name.startswith("media/")


def _objections(info: zipfile.ZipInfo) -> Iterator[Finding]:
    if info.flag_bits & _ENCRYPTED:
        yield Finding("archive_encrypted_entry", "the entry is encrypted")
    elif info.compress_type not in _METHODS:
        yield Finding("archive_unreadable", f"compression method {info.compress_type} can't be read")
    if info.file_size > ABSURD_BYTES and info.file_size > ABSURD_RATIO * info.compress_size:
        sizes = f"{info.file_size} bytes out of {info.compress_size}"
        yield Finding("archive_absurd_size", f"the entry claims to hold {sizes}")


def open_entry(file: BinaryIO, name: str) -> BinaryIO:
    """The decompressed content of an entry, forward only; closing it closes the archive's file too.

    OSError, here and while reading, for an entry that is gone, damaged, encrypted or longer than it claims.
    """
    with ExitStack() as stack:
        stack.callback(file.close)
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
            stream = stack.enter_context(archive.open(name))
        except _DAMAGE as error:
            raise _damaged(error) from error
        return io.BufferedReader(_EntryStream(stream, stack.pop_all()), 2**20)


def _damaged(error: Exception) -> OSError:
    return OSError(errno.EIO, f"archive entry can't be read: {error}")


class _EntryStream(io.RawIOBase):
    """An archive entry as a raw stream whose only error is OSError."""

    def __init__(self, stream: IO[bytes], opened: ExitStack) -> None:
        self._stream = stream
        self._opened = opened

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except _DAMAGE as error:
            raise _damaged(error) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._opened.close()
        super().close()
