"""`sourceEventSeqs`: lists and ranges in, runs of consecutive numbers kept, everything malformed refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlake.format.source_seqs import decode_sources, expand, pairs, source_faults
from turnlake.format.values import MAX_SAFE, BadRecord


def decoded(written: Any, longest: int = 100) -> list[int]:
    return decode_sources(written, longest)


def encode(seqs: list[int]) -> list[Any]:
    """What the harness writes: runs of three and more as ranges, where the list rises."""
    if any(left >= right for left, right in pairwise(seqs)):
        return list(seqs)
    written: list[Any] = []
    run: list[int] = []
    for seq in [*seqs, -1]:
        if run and seq != run[-1] + 1:
            written += [[run[0], run[-1]]] if len(run) >= 3 else run
            run = []
        run.append(seq)
    return written


@pytest.mark.parametrize(
    ("written", "seqs", "ranges"),
    [
        ([], [], []),
        ([5], [5], [5, 5]),
        ([5, 6, 7, 8], [5, 6, 7, 8], [5, 8]),
        ([4, [7, 9], 12], [4, 7, 8, 9, 12], [4, 4, 7, 9, 12, 12]),
        ([[12, 24]], list(range(12, 25)), [12, 24]),
        ([[1, 2], 3, [4, 5]], [1, 2, 3, 4, 5], [1, 5]),
        ([30, 31, 2, 12, 20], [30, 31, 2, 12, 20], [30, 31, 2, 2, 12, 12, 20, 20]),
        ([3, 3], [3, 3], [3, 3, 3, 3]),
        ([3.0, 4.0], [3, 4], [3, 4]),
        ([[2.0, 4]], [2, 3, 4], [2, 4]),
    ],
    ids=str,
)
def test_decoding(written: list[Any], seqs: list[int], ranges: list[int]) -> None:
    assert decoded(written) == ranges
    assert expand(ranges) == seqs


@pytest.mark.parametrize(
    "written",
    [
        None,
        {},
        "5",
        5,
        ["5"],
        [None],
        [True],
        [False],
        [0, True],
        [False, 1, 2],
        [-1],
        [1.5],
        [MAX_SAFE + 1],
        [MAX_SAFE, MAX_SAFE + 1],
        [[]],
        [[1]],
        [[1, 2, 3]],
        [[3, 2]],
        [["1", 2]],
        [[True, 2]],
        [[[1, 2], 3]],
        [[-1, 2]],
        [[1, 3], 2],
        [[1, 3], 3],
        [5, [1, 3]],
        [[1, 3], [3, 5]],
        [9, 7, [10, 12]],
        [9, 9, [10, 12]],
        [[0, 200]],
        [[0, MAX_SAFE]],
    ],
    ids=str,
)
def test_malformed(written: Any) -> None:
    with pytest.raises(BadRecord):
        decoded(written)


@given(st.lists(st.integers(0, 60), unique=True) | st.sets(st.integers(0, 60)).map(sorted))
def test_what_the_harness_writes_is_read_back(seqs: list[int]) -> None:
    for written in (seqs, encode(seqs)):
        ranges = decoded(written)
        assert expand(ranges) == seqs
        assert list(pairs(ranges)) == [(ranges[at], ranges[at + 1]) for at in range(0, len(ranges), 2)]


@given(st.lists(st.integers(-1, 9) | st.lists(st.integers(0, 9), max_size=3)))
def test_anything_else_is_refused_or_kept_in_order(written: list[Any]) -> None:
    try:
        ranges = decoded(written, 10)
    except BadRecord:
        return
    flat = [seq for item in written for seq in (range(item[0], item[1] + 1) if isinstance(item, list) else [item])]
    assert expand(ranges) == flat


@pytest.mark.parametrize(
    ("ranges", "faults"),
    [
        ([], []),
        ([1, 4], []),
        ([8, 9, 2, 3], []),
        ([1, 10], ["names event 10"]),
        ([11, 11], ["names event 11"]),
        ([3, 5, 4, 4], ["twice"]),
        ([3, 3, 3, 3], ["twice"]),
        ([12, 12, 12, 12], ["names event 12", "twice"]),
    ],
    ids=str,
)
def test_forbidden_numbers(ranges: list[int], faults: list[str]) -> None:
    found = list(source_faults(ranges, 10))
    assert len(found) == len(faults)
    assert all(fault in text for fault, text in zip(faults, found, strict=True))
