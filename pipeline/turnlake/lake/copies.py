"""Whether one log is the beginning of another, told line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import orjson

from turnlake.sources.container import container_of, open_log
from turnlake.sources.lines import LineReader, Overlong, read_lines
from turnlake.sources.logfile import LogFile

Record = bytes | Overlong
Records = Iterable[Record]


def records_of(log: LogFile) -> Iterator[Record]:
    """The durable records of a log; of a damaged one those up to the damage. OSError where it can't be read."""
    with open_log(log) as file:
        yield from durable_records(LineReader(file, container_of(log)))


def starts_with(longer: Iterable[Record], shorter: Iterable[Record]) -> bool:
    """Whether the records of longer begin with all records of shorter. Reads no further than the first difference.

    Records that say the same in other words are equal: what is stored of a log that is gone need not have its bytes.
    """
    following = chain(longer, [None])
    return all(_same(record, next(following)) for record in shorter)


def _same(one: Record, other: Record | None) -> bool:
    if one == other:
        return True
    if not isinstance(one, bytes) or not isinstance(other, bytes):
        return False
    try:
        return bool(orjson.loads(one) == orjson.loads(other))
    except orjson.JSONDecodeError:
        return False


def durable_records(reader: LineReader) -> Iterator[Record]:
    """The lines of a log without its header line, up to where a torn end begins.

    The header is left out since that of a backup may state another version; what a torn frame left, since the
    harness writes it again.
    """
    for line in read_lines(reader):
        if line.is_provisional:
            return
        if line.number > 1:
            yield line.data
