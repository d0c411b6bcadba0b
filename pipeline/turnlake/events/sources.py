"""`sourceEventSeqs`: plain lists and range forms (spec 4.3), kept as runs of consecutive numbers."""

from __future__ import annotations

from collections.abc import Iterator

from turnlake.events.values import BadRecord, is_count

# Pairs first, last of each run of consecutive numbers, flat, in the order as written.
Ranges = list[int]


def decode_sources(value: object, seq: int) -> Ranges:
    """The runs of a `sourceEventSeqs` as written on event seq. Raises BadRecord where its ranges are malformed.

    What is well formed but forbidden (repeated numbers, numbers not below seq) is for `source_faults`.
    """
    if not isinstance(value, list):
        raise BadRecord("sourceEventSeqs is not a list")
    if not value:
        return []
    first = value[0]
    if type(first) is int and first >= 0 and value == list(range(first, first + len(value))):
        return [first, first + len(value) - 1]
    return _runs(value, seq)


def _runs(value: list[object], seq: int) -> Ranges:
    ranges: Ranges = []
    has_ranges = False
    for item in value:
        if isinstance(item, list):
            has_ranges = True
            first, last = _range(item, seq)
        elif is_count(item):
            first = last = int(item)
        else:
            raise BadRecord("sourceEventSeqs holds something that is no sequence number")
        if has_ranges and ranges and first <= ranges[-1]:
            raise BadRecord("sourceEventSeqs with ranges does not rise")
        if ranges and first == ranges[-1] + 1:
            ranges[-1] = last
        else:
            ranges += (first, last)
    if has_ranges and any(a > b for a, b in zip(ranges, ranges[1:], strict=False)):
        raise BadRecord("sourceEventSeqs with ranges does not rise")
    return ranges


def _range(item: list[object], seq: int) -> tuple[int, int]:
    if len(item) != 2 or not is_count(item[0]) or not is_count(item[1]):
        raise BadRecord("sourceEventSeqs holds a malformed range")
    first, last = int(item[0]), int(item[1])
    if first > last or last - first >= max(seq, 1):
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
    if any(left[1] >= right[0] for left, right in zip(ordered, ordered[1:], strict=False)):
        yield "names an event twice"
