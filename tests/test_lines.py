"""Lines: split at byte 0x0A only, with exact positions, in bounded memory, whole or torn."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs import as_raw, as_zstd, frame
from turnlake.sources.lines import MAX_LINE, Line, LineReader, Overlong, read_lines

HEADER = b'{"type":"session"}'
LINES = (HEADER, b"one", b"two", b"three")
# Where lines break, and what only looks as if they did.
TEXT = st.lists(
    st.sampled_from(
        [b"\n", b"\n", b"a", b"\r\n", b"\x00", "\u2028\u2029\u0085".encode(), b"\x0b\x0c\x1c\xff", b"longer"]
    )
).map(b"".join)


class Dribble(io.BytesIO):
    """A file that gives what is asked of it in pieces of the given sizes."""

    def __init__(self, data: bytes, sizes: Sequence[int]) -> None:
        super().__init__(data)
        self.sizes = list(sizes)

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.sizes.pop() if self.sizes else size)


def raw(data: bytes, sizes: Sequence[int] = (), max_line: int = MAX_LINE) -> tuple[list[Line], LineReader]:
    reader = LineReader(Dribble(data, sizes), "raw", max_line)
    return list(read_lines(reader)), reader


def packed(data: bytes, max_line: int = MAX_LINE) -> tuple[list[Line], LineReader]:
    reader = LineReader(io.BytesIO(data), "zstd", max_line)
    return list(read_lines(reader)), reader


def datas(lines: Sequence[Line]) -> list[bytes | Overlong]:
    return [line.data for line in lines]


@given(TEXT, st.lists(st.integers(1, 9), max_size=30))
def test_pieces_of_a_raw_file_make_no_difference(data: bytes, sizes: list[int]) -> None:
    lines, reader = raw(data, sizes)
    *complete, rest = data.split(b"\n")
    assert datas(lines) == complete
    assert [line.number for line in lines] == list(range(1, len(complete) + 1))
    for line in lines:
        assert isinstance(line.data, bytes)
        assert data[line.offset :].startswith(line.data + b"\n")
    assert (reader.line_count, reader.decoded_bytes) == (len(complete), len(data))
    assert (reader.is_torn, reader.torn_bytes, reader.corrupt) == (bool(rest), len(rest), None)


@given(TEXT, st.lists(st.integers(1, 9), max_size=30), st.integers(0, 9))
def test_a_limit_changes_only_the_lines_beyond_it(data: bytes, sizes: list[int], limit: int) -> None:
    lines, reader = raw(data, sizes, limit)
    whole, _ = raw(data)
    expected = [
        line._replace(data=Overlong(len(line.data), bytes(line.data))) if len(line.data) > limit else line
        for line in whole
        if isinstance(line.data, bytes)
    ]
    assert lines == expected
    assert reader.decoded_bytes == len(data)


def test_only_the_start_of_an_overlong_line_is_kept() -> None:
    lines, _ = raw(b"x" * 5000 + b"\nend\n", [700] * 4, 2000)
    assert datas(lines) == [Overlong(5000, b"x" * 800), b"end"]
    assert lines[1].offset == 5001


def test_a_file_without_a_newline_is_torn() -> None:
    lines, reader = raw(b"half")
    assert lines == [] and (reader.is_torn, reader.torn_bytes) == (True, 4)


def test_an_overlong_line_may_be_torn() -> None:
    lines, reader = raw(b"a\n" + b"x" * 5000, [700] * 4, 100)
    assert datas(lines) == [b"a"] and (reader.is_torn, reader.torn_bytes) == (True, 5000)


def test_a_compressed_log() -> None:
    lines, reader = packed(as_zstd(LINES, [1]))
    assert lines == [
        Line(1, 0, HEADER, False),
        Line(2, 19, b"one", False),
        Line(3, 23, b"two", False),
        Line(4, 27, b"three", False),
    ]
    assert (reader.is_torn, reader.torn_bytes, reader.corrupt, reader.line_count) == (False, 0, None, 4)
    assert reader.decoded_bytes == len(as_raw(LINES))


@given(st.lists(st.integers(0, 12), max_size=6))
def test_frames_may_break_a_log_anywhere_behind_the_header(cuts: list[int]) -> None:
    body = as_raw(LINES[1:])
    places = [0, *sorted(cuts), len(body)]
    frames = [frame(body[start:end]) for start, end in pairwise(places)]
    lines, reader = packed(frame(HEADER + b"\n") + b"".join(frames))
    assert lines == raw(as_raw(LINES))[0]
    assert reader.corrupt is None and not reader.is_torn


def test_lines_of_a_torn_frame_are_provisional() -> None:
    whole = as_zstd(LINES[:2])
    torn = b"\x28\xb5\x2f\xfd\x00\x68" + (9 << 3).to_bytes(3, "little") + b"two\nthree" + b"\x09"
    lines, reader = packed(whole + torn)
    assert [(line.data, line.is_provisional) for line in lines] == [(HEADER, False), (b"one", False), (b"two", True)]
    assert (reader.is_torn, reader.torn_bytes, reader.corrupt) == (True, len(torn), None)


@pytest.mark.parametrize("cut", [1, 3, 5, 12, -1])
def test_a_torn_first_frame_is_a_session_unborn(cut: int) -> None:
    data = frame(HEADER + b"\n")[:cut]
    lines, reader = packed(data)
    assert lines == [] and (reader.is_torn, reader.torn_bytes, reader.corrupt) == (True, len(data), None)


@pytest.mark.parametrize(
    ("data", "code", "offset"),
    [
        (frame(as_raw(LINES)), "first_frame_not_header", 0),
        (frame(HEADER) + frame(b"\none\n"), "first_frame_not_header", 0),
        (frame(b"") + as_zstd(LINES), "first_frame_not_header", 0),
        (as_zstd(LINES) + frame(b"half"), "frame_ends_in_line", 0),
        (as_zstd(LINES[:1]) + frame(b"half") + frame(b"next\n")[:-1], "frame_ends_in_line", None),
        (as_zstd(LINES) + b"garbage", "frame_corrupt", len(as_zstd(LINES))),
        (b"garbage", "frame_corrupt", 0),
    ],
    ids=["two lines", "half a line", "empty first", "half at the end", "half before a torn", "garbage", "only garbage"],
)
def test_a_damaged_container_is_told(data: bytes, code: str, offset: int | None) -> None:
    _, reader = packed(data)
    assert reader.corrupt is not None
    assert reader.corrupt.code == code
    assert offset is None or reader.corrupt.byte_offset == offset


def test_what_stands_before_the_damage_is_read() -> None:
    lines, reader = packed(as_zstd(LINES) + b"garbage" + frame(b"lost\n"))
    assert datas(lines) == list(LINES)
    assert reader.corrupt is not None and reader.corrupt.code == "frame_corrupt"


def test_an_overlong_line_of_a_compressed_log() -> None:
    lines, _ = packed(as_zstd([HEADER, b"x" * 3000, b"end"]), 1000)
    assert datas(lines) == [HEADER, Overlong(3000, b"x" * 800), b"end"]


def test_a_bomb_is_a_finding() -> None:
    block = (128 << 10 << 3 | 2).to_bytes(3, "little") + b"a"
    bomb = b"\x28\xb5\x2f\xfd\x00\x68" + block * 20_000
    lines, reader = packed(as_zstd(LINES) + bomb)
    assert datas(lines) == list(LINES)
    assert reader.corrupt is not None and reader.corrupt.code == "decompression_bomb"
    assert reader.corrupt.byte_offset == len(as_zstd(LINES))
