"""Storage of a log: plain lines, or independent zstd frames with a checksum each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import zstandard

LEVEL = 3


class LogFile:
    """A log file being written, one batch of whole lines after the other.

    In a compressed log each batch is a frame of its own, so the first batch has to be the header line alone.
    """

    def __init__(self, path: Path, *, raw: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")
        self._compressor = None if raw else zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self.decoded_bytes = 0
        self.stored_bytes = 0

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, each of which ends in a newline."""
        data = b"".join(lines)
        stored = self._compressor.compress(data) if self._compressor else data
        self._file.write(stored)
        self.decoded_bytes += len(data)
        self.stored_bytes += len(stored)

    def __enter__(self) -> LogFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
