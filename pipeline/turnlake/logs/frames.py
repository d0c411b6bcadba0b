"""Zstandard logs: frames told apart by structure, decompressed piece by piece (spec 2.1).

A log is many independent frames back to back. A decoder that only wants content cannot tell a frame that
is cut off (normal for a live writer) from one that is damaged, so block headers are walked here and the
library decompresses what belongs together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
# A block decodes to at most 128 KiB, so what one call may decompress is bounded by counting blocks.
BLOCKS_AT_ONCE = 64
BYTES_AT_ONCE = 1 << 20
# No writer packs logs a thousandfold; an RLE bomb does thirty times that.
BOMB_FLOOR = 256 << 20
BOMB_RATIO = 1000


class FrameError(Exception):
    """A frame that breaks the format; `offset` is the file offset where it starts."""

    def __init__(self, offset: int, reason: str, *, is_bomb: bool = False) -> None:
        super().__init__(reason)
        self.offset = offset
        self.is_bomb = is_bomb


class Piece(NamedTuple):
    """Decompressed bytes of one frame. A frame that the file cuts off ends with `is_torn`."""

    data: bytes
    frame: int
    frame_offset: int
    ends_frame: bool
    is_torn: bool


class _Torn(Exception):
    """The file ends inside a frame."""


def read_pieces(file: BinaryIO) -> Iterator[Piece]:
    """The content of all frames in order.

    A torn last frame yields what can be decoded of it. Raises FrameError at the first frame that is no
    zstd frame, fails its checksum or does not decompress; what came before has been yielded by then.
    """
    offset = 0
    for frame in range(1 << 62):
        head = file.read(4)
        if not head:
            return
        size = 0
        decoder = zstandard.ZstdDecompressor().decompressobj()
        decoded = 0
        try:
            for chunk, ends in _frame_chunks(file, head, offset):
                size += len(chunk)
                data = decoder.decompress(chunk)
                decoded += len(data)
                if decoded > BOMB_FLOOR + BOMB_RATIO * size:
                    raise FrameError(offset, f"{decoded} bytes out of {size}", is_bomb=True)
                if ends and not decoder.eof:
                    raise FrameError(offset, "the frame does not end where its blocks do")
                yield Piece(data, frame, offset, ends, False)
        except zstandard.ZstdError as error:
            raise FrameError(offset, str(error)) from error
        except _Torn as torn:
            yield Piece(_decode_what_there_is(decoder, torn.args[0]), frame, offset, False, True)
            return
        offset += size


def _decode_what_there_is(decoder: zstandard.ZstdDecompressionObj, rest: bytes) -> bytes:
    """What a decoder yields of a cut-off frame; damage in it is no more than a shorter tail."""
    try:
        return decoder.decompress(rest) if rest else b""
    except zstandard.ZstdError:
        return b""


def _frame_chunks(file: BinaryIO, head: bytes, offset: int) -> Iterator[tuple[bytes, bool]]:
    """The bytes of one frame in chunks that decode to at most 8 MiB; True with the last one.

    Raises _Torn with the bytes not yet handed out where the file ends first, FrameError on bad structure.
    """
    if len(head) < len(MAGIC):
        raise _Torn(head)
    if head != MAGIC:
        raise FrameError(offset, "no zstd frame starts here")
    parts = [head]

    def take(count: int) -> bytes:
        data = file.read(count)
        parts.append(data)
        if len(data) < count:
            raise _Torn(b"".join(parts))
        return data

    descriptor = take(1)[0]
    if descriptor & 0x18:
        raise FrameError(offset, "reserved bits are set in the frame header")
    take(_header_rest(descriptor))
    blocks = held = 0
    while True:
        header = int.from_bytes(take(3), "little")
        kind, length = header >> 1 & 3, header >> 3
        if kind == 3:
            raise FrameError(offset, "a block of the reserved kind")
        held += length
        take(1 if kind == 1 else length)
        if header & 1:
            break
        blocks += 1
        if blocks % BLOCKS_AT_ONCE == 0 or held > BYTES_AT_ONCE:
            chunk, held = b"".join(parts), 0
            parts.clear()
            yield chunk, False
    if descriptor & 0x04:
        take(4)
    yield b"".join(parts), True


def _header_rest(descriptor: int) -> int:
    """Bytes of a frame header behind magic and descriptor."""
    single_segment = bool(descriptor & 0x20)
    flag = descriptor >> 6
    content_size = int(single_segment) if flag == 0 else 1 << flag
    return (not single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size
