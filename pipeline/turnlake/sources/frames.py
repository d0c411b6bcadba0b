"""Zstandard logs: frames told apart by structure, then decompressed piece by piece (spec 2.1).

A log is many independent frames back to back. A decoder that only wants content cannot tell a frame that
is cut off (normal for a live writer) from one that is damaged, so the block headers of each frame are walked
before the library decompresses it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
PIECE_BYTES = 1 << 20
# No writer packs logs a thousandfold; a bomb of RLE blocks does thirty times that.
BOMB_FLOOR = 256 << 20
BOMB_RATIO = 1000


class FrameError(Exception):
    """A frame that breaks the format; `offset` is the file offset where it starts."""

    def __init__(self, offset: int, reason: str, *, is_bomb: bool = False) -> None:
        super().__init__(reason)
        self.offset = offset
        self.is_bomb = is_bomb


class Piece(NamedTuple):
    """Decompressed bytes of one frame, at most 1 MiB; the last one of a whole frame has `ends_frame`.

    `end` is how far the file is read by then: at the frame's end, where the piece ends that.
    """

    data: bytes
    frame: int
    frame_offset: int
    ends_frame: bool
    is_torn: bool
    end: int


class _Torn(Exception):
    """The file ends inside a frame."""


def read_pieces(file: BinaryIO, offset: int = 0, decoded: int = 0) -> Iterator[Piece]:
    """The content of all frames from that offset on, in order; file is seekable. `decoded` bytes came before them.

    Frames are counted from 0, or from 1 where reading starts behind the first.

    A torn last frame yields what can be decoded of it. Raises FrameError at the first frame that is no
    zstd frame, fails its checksum or does not decompress; what came before has been yielded by then.
    """
    frame = int(offset > 0)
    decompressor = zstandard.ZstdDecompressor()
    file.seek(offset)
    while True:
        try:
            size = _frame_size(file, offset)
        except _Torn:
            size = None
        if size == 0:
            return
        file.seek(offset)
        for data, is_last in _decompress(decompressor, file, offset, size):
            decoded += len(data)
            end = file.tell()
            if decoded > BOMB_FLOOR + BOMB_RATIO * end:
                raise FrameError(offset, f"{decoded} bytes out of {end}", is_bomb=True)
            yield Piece(data, frame, offset, is_last and size is not None, size is None, end)
        if size is None:
            return
        offset += size
        file.seek(offset)
        frame += 1


def _decompress(
    decompressor: zstandard.ZstdDecompressor, file: BinaryIO, offset: int, size: int | None
) -> Iterator[tuple[bytes, bool]]:
    """The content of the frame of that size at offset, where file stands, and whether each piece is the last one.

    size is None for a torn frame.
    """
    source: Any = file
    if size is not None and size <= PIECE_BYTES:
        packed = file.read(size)
        data = _at_once(decompressor, packed)
        if data is not None:
            yield data, True
            return
        source = packed
    elif size is not None:
        source = _Window(file, size)
    reader = decompressor.stream_reader(source, closefd=False)
    try:
        while data := reader.read(PIECE_BYTES):
            yield data, False
    except zstandard.ZstdError as error:
        if size is not None:
            raise FrameError(offset, str(error)) from error
        # Damage in a frame that is cut off is no more than a shorter tail.
    if size is not None:
        file.seek(offset + size)
    yield b"", True


def _at_once(decompressor: zstandard.ZstdDecompressor, packed: bytes) -> bytes | None:
    """The content of a whole frame that says it is small, as nearly all do; None for any other, and a damaged one."""
    try:
        if 0 < zstandard.frame_content_size(packed) <= PIECE_BYTES:
            return decompressor.decompress(packed)
    except zstandard.ZstdError:
        pass  # read piece by piece it gives what stands before the damage
    return None


class _Window:
    """The next bytes of a file, as far as one frame goes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """At most size bytes, of what is left."""
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _frame_size(file: BinaryIO, offset: int) -> int:
    """Bytes of the frame that starts at offset, where file stands; 0 at the end of the file.

    Raises _Torn where the file ends first, FrameError on bad structure. Leaves file anywhere.
    """
    head = file.read(5)
    if not head:
        return 0
    if len(head) >= len(MAGIC) and not head.startswith(MAGIC):
        raise FrameError(offset, "no zstd frame starts here")
    if len(head) < 5:
        raise _Torn
    descriptor = head[4]
    if descriptor & 0x18:
        raise FrameError(offset, "reserved bits are set in the frame header")
    size = 5 + _skip(file, _header_rest(descriptor))
    is_last = False
    while not is_last:
        header = file.read(3)
        if len(header) < 3:
            raise _Torn
        number = int.from_bytes(header, "little")
        is_last, kind, length = bool(number & 1), number >> 1 & 3, number >> 3
        if kind == 3:
            raise FrameError(offset, "a block of the reserved kind")
        size += 3 + _skip(file, 1 if kind == 1 else length)
    return size + _skip(file, 4 if descriptor & 0x04 else 0)


def _skip(file: BinaryIO, count: int) -> int:
    """Go count bytes on; raises _Torn where the file has fewer."""
    if count:
        file.seek(count - 1, io.SEEK_CUR)
        if not file.read(1):
            raise _Torn
    return count


def _header_rest(descriptor: int) -> int:
    """Bytes of a frame header behind magic and descriptor."""
    single_segment = bool(descriptor & 0x20)
    flag = descriptor >> 6
    content_size = int(single_segment) if flag == 0 else 1 << flag
    return (not single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size
