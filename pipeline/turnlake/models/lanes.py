"""Models made side by side: each as soon as those it reads are there.

Most queries read too few rows to keep two threads busy; two queries do. Two also need more memory at once, so a lake
whose rows would not fit well within what models may use has them made one after another.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from graphlib import TopologicalSorter
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duckdb import DuckDBPyConnection

    from turnlake.models.model import Model

MOST_LANES = 2
# So many times the bytes of its Parquet files the memory must be: two queries at once failed at 1.3 times, not at 4.
ROOM = 4


def lane_count(db: DuckDBPyConnection, stored_bytes: int) -> int:
    """How many models to make at once, given the bytes of the files they read and what DuckDB may use."""
    settings = "current_setting('threads'), parse_formatted_bytes(current_setting('memory_limit'))"
    [(threads, memory)] = db.execute(f"select {settings}").fetchall()
    return min(threads, MOST_LANES) if ROOM * stored_bytes <= memory else 1


def make_in_order(
    db: DuckDBPyConnection,
    models: Sequence[Model],
    make: Callable[[DuckDBPyConnection, Model], None],
    count: int,
) -> None:
    """Calls `make` for each model behind those it reads, up to `count` at once, each with a connection of its own.

    The connections are to the database of `db`, in UTC and with the search path of a new one. What `make` raises
    first is raised when the calls under way have ended.
    """
    by_name = {model.name: model for model in models}
    waiting = TopologicalSorter({model.name: sorted(model.reads & by_name.keys()) for model in models})
    waiting.prepare()
    lanes: SimpleQueue[DuckDBPyConnection] = SimpleQueue()

    def run(name: str) -> str:
        lane = lanes.get()
        try:
            make(lane, by_name[name])
        finally:
            lanes.put(lane)
        return name

    with ExitStack() as stack:
        for _ in range(count):
            lane = stack.enter_context(db.cursor())
            lane.execute("set TimeZone = 'UTC'")
            lanes.put(lane)
        pool = stack.enter_context(ThreadPoolExecutor(count))
        running = set()
        while waiting.is_active():
            running |= {pool.submit(run, name) for name in waiting.get_ready()}
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            waiting.done(*(future.result() for future in finished))
