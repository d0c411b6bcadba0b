"""Where batches are converted: in this process, or in a pool of others."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def default_workers() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(work: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """The result of each job, as they are done. What a job raises is raised here, and the others are dropped.

    With more than one worker the pool must start before this process has other threads or has used Polars.
    """
    workers = min(workers, len(jobs))
    if workers <= 1:
        yield from map(work, jobs)
        return
    # A forked worker has Arrow loaded already; elsewhere than on Linux forking is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
