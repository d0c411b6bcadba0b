"""Zstd frames: told apart by structure, torn or damaged, decoded in bounded pieces."""

from __future__ import annotations

import io
import random
from itertools import groupby

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logs import frame
from turnlake.sources.frames import MAGIC, FrameError, Piece, read_pieces

# A frame header without size, checksum or dictionary; a window of 8 MiB.
PLAIN_HEADER = MAGIC + b"\x00\x68"
PIECE_BYTES = 8 << 20


def block(kind: int, length: int, content: bytes, *, is_last: bool = False) -> bytes:
    return (length << 3 | kind << 1 | is_last).to_bytes(3, "little") + content


def rle_frame(blocks: int, byte: bytes = b"a") -> bytes:
    """A frame that decodes to blocks times 128 KiB."""
    body = block(1, 128 << 10, byte) * (blocks - 1) + block(1, 128 << 10, byte, is_last=True)
    return PLAIN_HEADER + body


def pieces(data: bytes) -> list[Piece]:
    return list(read_pieces(io.BytesIO(data)))


def frames(data: bytes) -> list[tuple[bytes, int, bool, bool]]:
    """Of each frame its content, its offset, whether it ends, whether it is torn."""
    found: list[tuple[bytes, int, bool, bool]] = []
    for number, group in groupby(pieces(data), lambda piece: piece.frame):
        of_frame = list(group)
        assert number == len(found)
        assert not any(piece.ends_frame for piece in of_frame[:-1])
        last = of_frame[-1]
        found.append((b"".join(p.data for p in of_frame), last.frame_offset, last.ends_frame, last.is_torn))
    return found


def content(data: bytes) -> bytes:
    return b"".join(piece.data for piece in pieces(data))


def damage(data: bytes) -> tuple[bytes, FrameError]:
    """What was yielded before the damage, and the damage."""
    got = b""
    with pytest.raises(FrameError) as raised:
        for piece in read_pieces(io.BytesIO(data)):
            got += piece.data
    return got, raised.value


def test_an_empty_file_has_no_frames() -> None:
    assert pieces(b"") == []


def test_each_frame_is_told_apart() -> None:
    first, second = frame(b"one\n"), frame(b"two\n")
    assert frames(first + second) == [(b"one\n", 0, True, False), (b"two\n", len(first), True, False)]


@pytest.mark.parametrize(
    "data",
    [
        frame(b"x" * 1000, checksum=False),
        zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 1000),
        zstandard.ZstdCompressor(level=19, write_checksum=True).compress(b"x" * 1000),
        PLAIN_HEADER + block(0, 1000, b"x" * 1000, is_last=True),
        PLAIN_HEADER + block(1, 1000, b"x", is_last=True),
        PLAIN_HEADER + block(1, 500, b"x") + block(0, 500, b"x" * 500, is_last=True),
    ],
    ids=["no checksum", "no content size", "level 19", "raw block", "RLE block", "two blocks"],
)
def test_every_shape_of_a_frame(data: bytes) -> None:
    assert content(data + frame(b"end")) == b"x" * 1000 + b"end"


def test_a_frame_may_be_empty() -> None:
    assert content(frame(b"") + frame(b"x")) == b"x"


def test_a_big_frame_comes_in_bounded_pieces() -> None:
    data = random.Random(1).randbytes(1 << 20) * 24
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    assert frames(packed) == [(data, 0, True, False)]
    assert max(len(piece.data) for piece in pieces(packed)) <= PIECE_BYTES


def test_blocks_that_cannot_be_compressed_come_in_bounded_pieces() -> None:
    data = random.Random(1).randbytes(4 << 20)
    got = pieces(zstandard.ZstdCompressor().compress(data))
    assert b"".join(piece.data for piece in got) == data
    assert max(len(piece.data) for piece in got) <= PIECE_BYTES


@pytest.mark.parametrize(
    "data",
    [frame(b"hello\n" * 50), frame(b"hello", checksum=False), rle_frame(2), frame(random.Random(1).randbytes(300))],
    ids=["checksum", "no checksum", "RLE", "raw"],
)
def test_a_frame_cut_off_anywhere_is_torn_and_never_damaged(data: bytes) -> None:
    start, whole = frame(b"start\n"), content(data)
    for cut in range(1, len(data)):
        before, (got, offset, ends, is_torn) = frames(start + data[:cut])
        assert before == (b"start\n", 0, True, False)
        assert (offset, ends, is_torn) == (len(start), False, True)
        assert whole.startswith(got)


def test_a_torn_frame_gives_what_can_be_decoded() -> None:
    data = PLAIN_HEADER + block(0, 6, b"line1\n") + block(0, 6, b"line2\n", is_last=True)
    assert content(data[:-8]) == b"line1\n"
    assert content(data[:-1]) == b"line1\nline2"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"garbage!", "no zstd frame"),
        (b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip", "no zstd frame"),
        (MAGIC + b"\x08\x68" + block(0, 1, b"x", is_last=True), "reserved bits"),
        (MAGIC + b"\x10\x68" + block(0, 1, b"x", is_last=True), "reserved bits"),
        (PLAIN_HEADER + block(3, 1, b"x", is_last=True), "reserved kind"),
        (frame(b"x" * 99)[:-1] + b"\x00", ""),
        (PLAIN_HEADER + block(2, 9, b"\xff" * 9, is_last=True), ""),
        (MAGIC + b"\x01\x68\x07" + block(0, 1, b"x", is_last=True), ""),
    ],
    ids=["garbage", "skippable", "bit 3", "bit 4", "block kind", "checksum", "bad block", "dictionary"],
)
def test_damage_names_the_frame_and_keeps_what_came_before(data: bytes, message: str) -> None:
    start = frame(b"start\n")
    got, error = damage(start + data + frame(b"end\n"))
    assert got.startswith(b"start\n") and b"end" not in got
    assert error.offset == len(start) and not error.is_bomb
    assert message in str(error)


def test_up_to_three_bytes_behind_the_last_frame_are_torn() -> None:
    assert [pieces(frame(b"x") + b"\x28\xb5\x2f"[:count])[-1].is_torn for count in (1, 2, 3)] == [True] * 3


@given(st.binary(max_size=200))
def test_noise_is_told_and_never_breaks_anything(noise: bytes) -> None:
    try:
        assert all(len(piece.data) <= PIECE_BYTES for piece in read_pieces(io.BytesIO(noise)))
    except FrameError as error:
        assert 0 <= error.offset <= len(noise)


@given(st.data())
def test_one_changed_byte_is_told_or_changes_no_frame_before_it(data: st.DataObject) -> None:
    frames = [frame(bytes([65 + number]) * 40) for number in range(3)]
    log = bytearray(b"".join(frames))
    at = data.draw(st.integers(0, len(log) - 1))
    log[at] ^= 1 << data.draw(st.integers(0, 7))
    intact = at // len(frames[0])
    got = b""
    try:
        for piece in read_pieces(io.BytesIO(bytes(log))):
            got += piece.data
    except FrameError as error:
        # A block's size that is wrong leads to another place, where the next frame is missed.
        assert error.offset >= intact * len(frames[0])
    assert got[: 40 * intact] == content(b"".join(frames[:intact]))


def test_a_bomb_stops_soon() -> None:
    bomb = rle_frame(65_536)  # 256 KB for 8 GB
    decoded = 0
    with pytest.raises(FrameError) as raised:
        for piece in read_pieces(io.BytesIO(frame(b"start\n") + bomb)):
            decoded += len(piece.data)
            assert len(piece.data) <= PIECE_BYTES
    assert raised.value.is_bomb
    assert decoded < 600 << 20


def test_a_bomb_in_many_frames_stops_soon() -> None:
    bomb = rle_frame(1500) * 12  # 72 KB for 2.3 GB, each frame below what one frame may hold
    decoded = 0
    with pytest.raises(FrameError) as raised:
        for piece in read_pieces(io.BytesIO(bomb)):
            decoded += len(piece.data)
    assert raised.value.is_bomb
    assert decoded < 600 << 20
