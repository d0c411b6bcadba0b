"""Which logs are converted together, and where: in this process, in a pool of others, or on a cluster.

Batches depend on the logs alone, so that the parts do too: they are the same for any number of workers.
Importing this module loads no Arrow. A build with nothing to read asks it for no more than a number.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from turnlake.lake.files import part_name
from turnlake.sources.remote import was_used

if TYPE_CHECKING:
    from turnlake.lake.convert import Batch, Converted
    from turnlake.lake.plan import Options
    from turnlake.sources.logfile import LogFile

# Bytes of lines in a batch: small enough to share out among workers and to write again when one log changes.
BATCH_BYTES = 24 << 20
# A lake of many logs still has no more parts than this; each scan opens them all.
MOST_BATCHES = 200
# Logs in a batch, however small they are.
BATCH_LOGS = 1000
# How many bytes of lines a compressed byte is taken for.
ZSTD_FACTOR = 3

Job = TypeVar("Job")
Result = TypeVar("Result")


def make_batches(logs: Sequence[LogFile], first: int = 0) -> list[Batch]:
    """The logs in batches, in their order; parts are numbered from first on."""
    from turnlake.lake.convert import Batch

    limit = max(BATCH_BYTES, sum(map(_line_bytes, logs)) // MOST_BATCHES)
    groups = list(_groups(logs, limit))
    return [Batch(part_name(number), group) for number, group in enumerate(groups, first)]


def largest_first(batches: Sequence[Batch]) -> list[Batch]:
    """The order to work in, so that no worker starts on a big batch when the others are done."""
    return sorted(batches, key=lambda batch: (-sum(map(_line_bytes, batch.logs)), batch.name))


def _groups(logs: Sequence[LogFile], limit: int) -> Iterator[tuple[LogFile, ...]]:
    group: list[LogFile] = []
    held = 0
    for log in logs:
        if group and (held + _line_bytes(log) > limit or len(group) >= BATCH_LOGS):
            yield tuple(group)
            group, held = [], 0
        group.append(log)
        held += _line_bytes(log)
    if group:
        yield tuple(group)


def _line_bytes(log: LogFile) -> int:
    return log.size if log.path.endswith(".jsonl") else log.size * ZSTD_FACTOR


def default_workers() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def convert_all(batches: Sequence[Batch], folder: Path, options: Options) -> Iterator[list[Converted]]:
    """`convert` of each batch, as they are done; the files are below folder then. Errors as `convert_on_cluster`."""
    # Arrow comes with it, and a build with nothing to read asks this module for no more than a number.
    from turnlake.lake.convert import convert

    job = functools.partial(convert, folder=folder, max_line=options.max_line)
    if options.cluster is None:
        yield from run(job, largest_first(batches), options.workers or default_workers())
        return
    # What goes on from stored rows is done where the lake is.
    yield from run(job, largest_first([batch for batch in batches if batch.stored]), default_workers())
    if there := largest_first([batch for batch in batches if not batch.stored]):
        from turnlake.lake.dask import convert_on_cluster

        yield from convert_on_cluster(options.cluster, there, folder, options.max_line, options.workers)


def run(work: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """The result of each job, as they are done. What a job raises is raised here, and the others are dropped.

    With more than one worker the pool must start before this process has other threads or has used Polars.
    """
    workers = min(workers, len(jobs))
    if workers <= 1:
        yield from map(work, jobs)
        return
    # Most builds after the first have one batch, and no need of them.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # A forked worker has Arrow loaded already. Forking is not safe elsewhere than on Linux, nor once this process
    # has talked to an object store, whose client has threads.
    is_safe = sys.platform == "linux" and not was_used()
    context = multiprocessing.get_context("fork" if is_safe else "spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """In a worker: end when the process that started it is gone, killed perhaps, and nobody wants the result."""
    threading.Thread(target=_await_parent, daemon=True).start()


def _await_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None  # this is a worker
    parent.join()
    os._exit(1)
