"""`sourceEventSeqs`: plain lists and range forms (spec 4.3), kept as runs of consecutive numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from turnlake.format.values import MAX_SAFE, BadRecord, is_count

# Pairs first, last of each run of consecutive numbers, flat, in the order as written.
Ranges = list[int]


def decode_sources(value: object, longest: int) -> Ranges:
    """The runs of a `sourceEventSeqs`. Raises BadRecord where its ranges are malformed.

    `longest` is the number of events so far: no range can name more.

    What is well formed but forbidden (repeated numbers, numbers not below seq) is for `source_faults`.
    """
    if not isinstance(value, list):
        raise BadRecord("sourceEventSeqs is not a list")
    if not value:
        return []
    first = value[0]
    if type(first) is int and first >= 0 and value == list(range(first, first + len(value))):
        last = first + len(value) - 1
        # Python takes true for 1 and false for 0, so only there can one of them hide.
        if last <= MAX_SAFE and (first > 1 or all(type(item) is int for item in value[:2])):
            return [first, last]
    return _runs(value, longest)


def _runs(value: list[object], longest: int) -> Ranges:
    ranges: Ranges = []
    has_ranges = False
    for item in value:
        if isinstance(item, list):
            has_ranges = True
            first, last = _range(item, longest)
        elif is_count(item):
            first = last = int(item)
        else:
            raise BadRecord("sourceEventSeqs holds something that is no sequence number")
        if ranges and first == ranges[-1] + 1:
            ranges[-1] = last
        else:
            ranges += (first, last)
    if has_ranges and any(before >= after for before, after in zip(ranges[1::2], ranges[2::2], strict=False)):
        raise BadRecord("sourceEventSeqs with ranges does not rise")
    return ranges


def _range(item: list[object], longest: int) -> tuple[int, int]:
    if len(item) != 2 or not is_count(item[0]) or not is_count(item[1]):
        raise BadRecord("sourceEventSeqs holds a malformed range")
    first, last = int(item[0]), int(item[1])
    if first > last or last - first >= max(longest, 1):
        raise BadRecord("sourceEventSeqs holds a range that is reversed or too long")
    return first, last


def expand(ranges: Ranges) -> list[int]:
    """All numbers of the runs, in order."""
    return [seq for first, last in pairs(ranges) for seq in range(first, last + 1)]


def pairs(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """The runs as pairs first, last."""
    return zip(ranges[::2], ranges[1::2], strict=True)


def source_faults(ranges: Ranges, seq: int) -> Iterator[str]:
    """What INV-07 forbids in the runs of event seq."""
    latest = max(ranges, default=-1)
    if latest >= seq:
        yield f"names event {latest}, which is not earlier"
    ordered = sorted(pairs(ranges))
    if any(left[1] >= right[0] for left, right in pairwise(ordered)):
        yield "names an event twice"
