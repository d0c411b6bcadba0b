"""Whether one log is the beginning of another, told line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from turnlake.logs.container import container_of, open_log
from turnlake.logs.discover import LogFile
from turnlake.logs.lines import LineReader, Overlong, read_lines

Record = bytes | Overlong


def log_starts_with(longer: LogFile, shorter: LogFile) -> bool:
    """Whether the durable records of longer begin with all those of shorter, whatever their containers.

    Of a damaged log these are the records up to the damage. OSError where one of the two can't be read.
    """
    with open_log(longer) as longer_file, open_log(shorter) as shorter_file:
        return records_start_with(
            durable_records(LineReader(longer_file, container_of(longer))),
            durable_records(LineReader(shorter_file, container_of(shorter))),
        )


def records_start_with(longer: Iterable[Record], shorter: Iterable[Record]) -> bool:
    """Whether the records of longer begin with all records of shorter. Reads no further than the first difference."""
    following = chain(longer, [None])
    return all(record == next(following) for record in shorter)


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
