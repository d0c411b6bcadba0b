"""The lines of one log: split at byte 0x0A only, in bounded memory, with exact positions."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from turnlake.findings import EXCERPT_CHARS, Finding
from turnlake.sources.frames import FrameError, Piece, read_pieces

MAX_LINE = 256_000_000
RAW_PIECE = 1 << 20
# A writer's frame holds some twenty lines; frames are taken together up to this size.
JOINED_PIECE = 1 << 18


class Overlong(NamedTuple):
    """Stands for a line that is not read for its length or weight, whose bytes were skipped; `why` tells which."""

    length: int
    start: bytes
    why: str = "longer than the longest line allowed"


class Block(NamedTuple):
    """Consecutive complete lines without their newlines; number and offset are those of the first."""

    number: int
    offset: int
    lines: list[bytes | Overlong]
    is_provisional: bool


class Mark(NamedTuple):
    """A place between two complete lines or frames where reading can begin or go on.

    `offset` is that in the file, `decoded` that in the decompressed log, `line_count` the lines before it.
    """

    offset: int = 0
    decoded: int = 0
    line_count: int = 0


class LineReader:
    """Reads a log once, front to back, or from a mark on.

    Iterate over `blocks()`; when that ends the attributes tell how the file ended: `is_torn`, `torn_bytes`
    (bytes of the file behind its last complete line or frame), `corrupt` (what is wrong with the container,
    None when nothing is), `decoded_bytes`, `line_count`, and `mark`, where the next reading can go on.
    """

    def __init__(self, file: BinaryIO, container: str, max_line: int = MAX_LINE, start: Mark = Mark()) -> None:  # noqa: B008
        self._file = file
        self._is_zstd = container == "zstd"
        self._max_line = max_line
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._offset = start.decoded
        self.mark = start
        self.line_count = start.line_count
        self.decoded_bytes = start.decoded
        self.is_torn = False
        self.torn_bytes = 0
        self.corrupt: Finding | None = None

    def blocks(self) -> Iterator[Block]:
        """All complete lines in blocks; those recovered from a torn frame are provisional."""
        for piece in self._zstd_pieces() if self._is_zstd else self._raw_pieces():
            self.decoded_bytes += len(piece.data)
            end = piece.data.rfind(b"\n")
            if end >= 0:
                yield self._complete(piece.data, end, piece.is_torn)
            self._hold(piece.data[end + 1 :])
        if not self._is_zstd:
            self.mark = Mark(self._offset, self._offset, self.line_count)
        if self._held_bytes and not self._is_zstd:
            self.is_torn, self.torn_bytes = True, self._held_bytes
        elif self._held_bytes and not self.is_torn:
            self._damage("frame_ends_in_line", 0, "the frames together end inside a line")

    def _raw_pieces(self) -> Iterator[Piece]:
        if self.mark.offset:
            self._file.seek(self.mark.offset)
        while data := self._file.read(RAW_PIECE):
            yield Piece(data, 0, 0, False, False, 0)

    def _zstd_pieces(self) -> Iterator[Piece]:
        try:
            for piece in _joined(read_pieces(self._file, self.mark.offset, self.mark.decoded)):
                if piece.is_torn and not self.is_torn:
                    self._tear(piece.frame_offset)
                if piece.is_torn and piece.frame == 0:
                    continue  # an unborn session: without one complete frame there is no header
                yield piece
                if piece.ends_frame and not self._held_bytes:
                    self.mark = Mark(piece.end, self._offset, self.line_count)
                if piece.frame == 0 and piece.ends_frame and (self.line_count != 1 or self._held_bytes):
                    self._damage("first_frame_not_header", 0, "the first frame is not exactly one line")
        except FrameError as error:
            code = "decompression_bomb" if error.is_bomb else "frame_corrupt"
            self._damage(code, error.offset, f"frame at byte {error.offset}: {error}")

    def _tear(self, frame_offset: int) -> None:
        if self._held_bytes:
            self._damage("frame_ends_in_line", frame_offset, "the complete frames end inside a line")
        here = self._file.tell()
        self.is_torn, self.torn_bytes = True, self._file.seek(0, io.SEEK_END) - frame_offset
        self._file.seek(here)

    def _damage(self, code: str, offset: int, detail: str) -> None:
        if self.corrupt is None:
            self.corrupt = Finding(code, detail, None, offset)

    def _complete(self, data: bytes, end: int, is_provisional: bool) -> Block:
        """The lines that data completes: the held start of the first one, and all up to the newline at end."""
        lines: list[bytes | Overlong] = [*data[:end].split(b"\n")]
        length = self._held_bytes + end + 1
        if self._held_bytes:
            lines[0] = self._release(data[: data.index(b"\n")])
        if length > self._max_line:
            lines = [self._bounded(line) for line in lines]
        block = Block(self.line_count + 1, self._offset, lines, is_provisional)
        self.line_count += len(lines)
        self._offset += length
        return block

    def _bounded(self, line: bytes | Overlong) -> bytes | Overlong:
        if isinstance(line, Overlong) or len(line) <= self._max_line:
            return line
        return Overlong(len(line), line[: 4 * EXCERPT_CHARS])

    def _hold(self, data: bytes) -> None:
        """Keep the start of a line, or no more than its first bytes once it is too long."""
        if data:
            self._held_bytes += len(data)
            self._held.append(data)
            if self._held_bytes > self._max_line:
                self._held = [b"".join(self._held)[: 4 * EXCERPT_CHARS]]

    def _release(self, rest: bytes) -> bytes | Overlong:
        length = self._held_bytes + len(rest)
        start = b"".join([*self._held, rest])
        self._held, self._held_bytes = [], 0
        if length > self._max_line:
            return Overlong(length, start[: 4 * EXCERPT_CHARS])
        if is_too_heavy(start):
            return Overlong(length, start[: 4 * EXCERPT_CHARS], "of more values than memory is allowed for")
        return start


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """The pieces, small ones taken together; the first frame and a torn one stay by themselves.

    Raises FrameError where reading them does, after all that came before.
    """
    held: list[Piece] = []
    size = 0
    try:
        for piece in pieces:
            if held and (piece.is_torn or size + len(piece.data) > JOINED_PIECE):
                yield _together(held)
                held, size = [], 0
            if piece.is_torn or piece.frame == 0:
                yield piece
            else:
                held.append(piece)
                size += len(piece.data)
    except FrameError:
        if held:
            yield _together(held)
        raise
    if held:
        yield _together(held)


def _together(pieces: list[Piece]) -> Piece:
    return pieces[-1]._replace(data=b"".join([piece.data for piece in pieces]))


class Line(NamedTuple):
    """One complete line without its newline. number counts from 1, offset in the decompressed log."""

    number: int
    offset: int
    data: bytes | Overlong
    is_provisional: bool
    # Of a stored line: it was kept whole, since it is not written as the harness writes it.
    is_kept: bool = False


def read_lines(reader: LineReader) -> Iterator[Line]:
    """The lines of a log one by one, for those who do not need to be fast."""
    for block in reader.blocks():
        offset = block.offset
        for number, data in enumerate(block.lines, block.number):
            yield Line(number, offset, data, block.is_provisional)
            offset += (data.length if isinstance(data, Overlong) else len(data)) + 1


# The memory a long line would take once it is parsed: some bytes of JSON become thirty times as many. `{},` is three
# bytes, and an object in a list takes over seventy; a line of text takes what it is long. So a line is weighed only if
# it is long, and closely only if it holds many brackets and commas, which text in strings may hold too.

# Shorter lines fit into what a build takes in any case.
WEIGHED_BYTES = 8 << 20
# What values take in Python, bytes: one of a list, an object, a list, a member with its key.
VALUE, OBJECT, LIST, MEMBER = 32, 128, 64, 64
# What they may take: the promise is 700 MB and eight times the line, of which the line itself needs a part.
FREE_BYTES = 300_000_000
TIMES = 6

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def is_too_heavy(line: bytes) -> bool:
    """Whether parsing the line would take more memory than a line of its length may."""
    if len(line) < WEIGHED_BYTES:
        return False
    allowed = FREE_BYTES + TIMES * len(line)
    return _weight(line) > allowed and _weight(_STRING.sub(b"", line)) > allowed


def _weight(line: bytes) -> int:
    count = line.count
    return VALUE * count(b",") + OBJECT * count(b"{") + LIST * count(b"[") + MEMBER * count(b":")
