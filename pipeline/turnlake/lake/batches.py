"""Which logs are converted together. It depends on the logs alone, so that the parts do too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from turnlake.lake.convert import Batch
from turnlake.sources.logfile import LogFile

# Bytes of lines in a batch: small enough to share out among workers and to write again when one log changes.
BATCH_BYTES = 24 << 20
# A lake of many logs still has no more parts than this; each scan opens them all.
MOST_BATCHES = 200
# Logs in a batch, however small they are.
BATCH_LOGS = 1000
# How many bytes of lines a compressed byte is taken for.
ZSTD_FACTOR = 3


def make_batches(logs: Sequence[LogFile], first: int = 0) -> list[Batch]:
    """The logs in batches, in their order; parts are numbered from first on."""
    limit = max(BATCH_BYTES, sum(map(_weight, logs)) // MOST_BATCHES)
    groups = list(_groups(logs, limit))
    return [Batch(part_name(number), group) for number, group in enumerate(groups, first)]


def part_name(number: int) -> str:
    """The name of a part."""
    return f"part-{number:05}.parquet"


def part_after(names: Iterable[str]) -> int:
    """The number of the part that follows those named."""
    return 1 + max((int(name.removeprefix("part-").removesuffix(".parquet")) for name in names), default=-1)


def largest_first(batches: Sequence[Batch]) -> list[Batch]:
    """The order to work in, so that no worker starts on a big batch when the others are done."""
    return sorted(batches, key=lambda batch: (-sum(map(_weight, batch.logs)), batch.name))


def _groups(logs: Sequence[LogFile], limit: int) -> Iterator[tuple[LogFile, ...]]:
    group: list[LogFile] = []
    held = 0
    for log in logs:
        if group and (held + _weight(log) > limit or len(group) >= BATCH_LOGS):
            yield tuple(group)
            group, held = [], 0
        group.append(log)
        held += _weight(log)
    if group:
        yield tuple(group)


def _weight(log: LogFile) -> int:
    return log.size if log.path.endswith(".jsonl") else log.size * ZSTD_FACTOR
