"""Queries side by side, such as models: each made as soon as those it reads are there.

Most queries read too few rows to keep two threads busy; two queries do. Two also need more memory at once, so a lake
whose rows would not fit well within what models may use has them made one after another.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from graphlib import TopologicalSorter
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from duckdb import DuckDBPyConnection

    from turnlake.models.model import Model

T = TypeVar("T")

MOST_LANES = 2
# So many times the bytes of its Parquet files the memory must be: two queries at once failed at 1.3 times, not at 4.
ROOM = 4


def lane_count(db: DuckDBPyConnection, stored_bytes: int) -> int:
    """How many models to make at once, given the bytes of the files they read and what DuckDB may use."""
    settings = "current_setting('threads'), parse_formatted_bytes(current_setting('memory_limit'))"
    [(threads, memory)] = db.execute(f"select {settings}").fetchall()
    return min(threads, MOST_LANES) if ROOM * stored_bytes <= memory else 1


class Lanes:
    """Connections that each run one call at a time."""

    def __init__(self, pool: ThreadPoolExecutor, connections: Sequence[DuckDBPyConnection]) -> None:
        self.count = len(connections)
        self._pool = pool
        self._free: SimpleQueue[DuckDBPyConnection] = SimpleQueue()
        for connection in connections:
            self._free.put(connection)

    def start(self, call: Callable[[DuckDBPyConnection], T]) -> Future[T]:
        """Runs the call behind those started before, on the first connection that is free."""
        return self._pool.submit(self._run, call)

    def _run(self, call: Callable[[DuckDBPyConnection], T]) -> T:
        connection = self._free.get()
        try:
            return call(connection)
        finally:
            self._free.put(connection)


@contextmanager
def side_by_side(
    db: DuckDBPyConnection, count: int, use: Callable[[DuckDBPyConnection], None] = lambda _lane: None
) -> Iterator[Lanes]:
    """So many lanes to the database of `db`, each in UTC and with the search path that `use` gives it.

    When the block ends, calls under way are waited for, and those behind them are not run.
    """
    # The thread of a lane works on its query itself; with as many of DuckDB's own they would stand in each other's way.
    db.execute(f"set external_threads = {count}")
    with ExitStack() as stack:
        connections = [stack.enter_context(db.cursor()) for _ in range(count)]
        for connection in connections:
            connection.execute("set TimeZone = 'UTC'")
            use(connection)
        pool = ThreadPoolExecutor(count)
        stack.callback(pool.shutdown, cancel_futures=True)
        yield Lanes(pool, connections)


def make_in_order(lanes: Lanes, models: Sequence[Model], make: Callable[[DuckDBPyConnection, Model], None]) -> None:
    """Calls `make` for each model behind those it reads, of those that are due for the one most others wait for.

    `models` are in such an order already. Raises what `make` raises first.
    """
    by_name = {model.name: model for model in models}
    waiting = TopologicalSorter({model.name: sorted(model.reads & by_name.keys()) for model in models})
    waiting.prepare()
    behind = _behind(models)
    due: list[str] = []
    running: dict[Future[None], str] = {}

    def start(name: str) -> Future[None]:
        return lanes.start(lambda lane: make(lane, by_name[name]))

    while waiting.is_active():
        due = sorted([*due, *waiting.get_ready()], key=lambda name: len(behind[name]))
        while due and len(running) < lanes.count:
            name = due.pop()
            running[start(name)] = name
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()
            waiting.done(running.pop(future))


def _behind(models: Sequence[Model]) -> dict[str, set[str]]:
    """The models that wait for each, directly or not."""
    behind: dict[str, set[str]] = {model.name: set() for model in models}
    for model in reversed(models):
        for name in model.reads & behind.keys():
            behind[name] |= {model.name} | behind[model.name]
    return behind
