"""Batches converted on a Dask cluster (extra `dask`): `convert` runs on its workers, and the files come back.

Workers see the logs, not the lake. Each writes the files of a batch to its scratch folder and answers with a few facts
and their sizes; the files follow piece by piece, so that neither the scheduler nor this process ever holds a batch. A
worker that dies before its files are here has its batch done again: conversion gives the same bytes anywhere.
"""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import turnlake
from turnlake.errors import TurnlakeError, UsageError
from turnlake.files import make_folder
from turnlake.lake.convert import Batch, Converted, convert
from turnlake.lake.manifest import can_be_opened
from turnlake.lake.reuse_parts import LASTING
from turnlake.rows.tables import LAKE_FORMAT, PARSER_VERSION
from turnlake.rows.writer import TAIL
from turnlake.sources.container import open_regular
from turnlake.sources.logfile import LogFile
from turnlake.sources.sqlite_file import changed_at

PIECE_BYTES = 8 << 20
# How many workers may die under one batch.
TRIES = 3
# How long to wait for the scheduler, and for a first worker, in seconds; how often to look whether there are any left.
PATIENCE_S = 10
GLANCE_S = 30

Versions = dict[str, str]


@dataclass(frozen=True)
class _Answer:
    """What a worker says of a batch: where its files are, their sizes in the order of `_files`, and of each log.

    `unseen` are logs, by log_id, that this worker does not see as this process found them, and how.
    """

    worker: str
    folder: str
    sizes: tuple[int, ...]
    converted: list[Converted]
    unseen: dict[str, str]


def versions() -> Versions:
    """What must be the same everywhere for a batch to give the same bytes."""
    return {
        "turnlake": turnlake.__version__,
        "parser": str(PARSER_VERSION),
        "lake format": str(LAKE_FORMAT),
        "pyarrow": version("pyarrow"),
    }


def convert_on_cluster(
    address: str, batches: Sequence[Batch], folder: Path, max_line: int, at_a_time: int | None = None
) -> Iterator[list[Converted]]:
    """What became of the logs of each batch, once its files are below folder as `convert` writes them there.

    `address` is the scheduler's; at_a_time batches are with the cluster at once, None for one a thread of its workers.
    UsageError where the cluster can't be reached, has another turnlake or does not see the logs; TurnlakeError where a
    batch ends every worker that tries it.
    """
    with _client(address) as client:
        yield from _Run(client, folder, max_line, at_a_time).results(batches)


def _dask() -> Any:
    """The package `distributed`, which few need, and which comes without types."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise UsageError(f"--engine dask:// needs the extra: pip install 'turnlake[dask]' ({error})") from error


@contextmanager
def _client(address: str) -> Iterator[Any]:
    dask = _dask()
    # Dask tells of each lost connection, and what follows from one is told here.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    is_encrypted = import_module("dask").config.get("distributed.comm.require-encryption", None)
    scheme = "tls" if is_encrypted else "tcp"
    try:
        client = dask.Client(f"{scheme}://{address}", timeout=PATIENCE_S)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}: {str(error) or type(error).__name__}. "
            "Start one (`dask scheduler`), or read the logs here: --engine local."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError as error:
            raise UsageError(f"the Dask cluster at {address} has no workers. Start some: `dask worker`.") from error
        yield client


class _Run:
    """The batches of one build on their way through the cluster."""

    def __init__(self, client: Any, folder: Path, max_line: int, at_a_time: int | None) -> None:
        self._client = client
        self._folder = folder
        self._max_line = max_line
        self._at_a_time = at_a_time
        self._tries: dict[str, int] = {}

    def results(self, batches: Sequence[Batch]) -> Iterator[list[Converted]]:
        todo, running = deque(batches), dict[Any, Batch]()
        try:
            while todo or running:
                while todo and len(running) < (self._at_a_time or self._threads()):
                    batch = todo.popleft()
                    running[self._submit(batch)] = batch
                for future in self._finished(running):
                    batch = running.pop(future)
                    answer = self._answer(future, batch)
                    if self._fetch(answer, batch):
                        yield answer.converted
                    else:
                        todo.appendleft(batch)
        finally:
            self._client.cancel(list(running))

    def _threads(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def _submit(self, batch: Batch) -> Any:
        tried = self._tries[batch.name] = self._tries.get(batch.name, 0) + 1
        if tried > TRIES:
            raise TurnlakeError(self._given_up(batch, f"{TRIES} workers were lost before its files were here"))
        key = f"turnlake-{self._client.id}-{batch.name}-{tried}"
        return self._client.submit(_convert_there, batch, self._max_line, versions(), key=key, pure=False)

    def _finished(self, running: dict[Any, Batch]) -> list[Any]:
        """The futures that are done, at least one. TurnlakeError once the cluster has lost all workers."""
        had_workers = True
        while True:
            try:
                return list(_dask().wait(list(running), timeout=GLANCE_S, return_when="FIRST_COMPLETED").done)
            except TimeoutError:
                has_workers = bool(self._client.nthreads())
                if not (has_workers or had_workers):
                    raise TurnlakeError("the Dask cluster has no worker left. Start some and build again.") from None
                had_workers = has_workers

    def _answer(self, future: Any, batch: Batch) -> _Answer:
        try:
            answer: _Answer = future.result()
        except _dask().KilledWorker as error:
            raise TurnlakeError(self._given_up(batch, "each worker that tried died")) from error
        except ModuleNotFoundError as error:
            raise UsageError(
                f"a Dask worker can't run this: {error}. Install turnlake {turnlake.__version__} on all of them."
            ) from error
        for log in batch.logs:
            # What is not there for this process either has gone meanwhile.
            if log.log_id in answer.unseen and can_be_opened(log):
                raise UsageError(
                    f"the Dask worker {answer.worker} does not see {log.place} as it is here: "
                    f"{answer.unseen[log.log_id]}. Mount the logs at the same path, readable, on every worker, or name "
                    "a URL that all can read."
                )
        return answer

    def _given_up(self, batch: Batch, why: str) -> str:
        first, last = batch.logs[0].place, batch.logs[-1].place
        return (
            f"{batch.name} ({len(batch.logs)} logs from {first} to {last}) is given up: {why}. "
            "More memory for a worker may help; `--engine local` shows what is wrong."
        )

    def _fetch(self, answer: _Answer, batch: Batch) -> bool:
        """Bring the files of a batch here; False where the worker that has them is gone."""
        for path, size in zip(_files(batch.name), answer.sizes, strict=True):
            make_folder((self._folder / path).parent)
            with (self._folder / path).open("wb") as file:
                while file.tell() < size:
                    piece = self._ask(answer.worker, _read_piece, f"{answer.folder}/{path}", file.tell(), PIECE_BYTES)
                    if not piece:
                        return False
                    file.write(piece)
        # Should that fail, the folder goes with its worker.
        self._ask(answer.worker, _discard, answer.folder)
        return True

    def _ask(self, worker: str, function: Any, *values: Any) -> Any:
        """What a function gives on one worker; None where that, or the file it is about, is gone."""
        if worker not in self._client.nthreads():
            return None
        try:
            return self._client.run(function, *values, workers=[worker])[worker]
        except OSError:
            return None


def _files(name: str) -> list[Path]:
    """What `convert` writes for a batch, below its folder."""
    return [Path(root) / table.name / name for root in (".", TAIL) for table in LASTING]


# On the workers


def _convert_there(batch: Batch, max_line: int, wanted: Versions) -> _Answer:
    worker = _dask().get_worker()
    if versions() != wanted:
        raise UsageError(f"the Dask worker {worker.address} has {_named(versions())}, here is {_named(wanted)}")
    folder = Path(worker.local_directory) / f"turnlake-{worker.get_current_task()}"
    # A former try may have died in the middle.
    shutil.rmtree(folder, ignore_errors=True)
    # Looked at before they are read: what changes behind that is as for any reader.
    unseen = {log.log_id: why for log in batch.logs if (why := _why_unseen(log)) is not None}
    converted = convert(batch, folder, max_line)
    sizes = tuple((folder / path).stat().st_size for path in _files(batch.name))
    return _Answer(worker.address, str(folder), sizes, converted, unseen)


def _named(found: Versions) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items())


def _why_unseen(log: LogFile) -> str | None:
    """How a log is not what the process that found it saw; None where it is that, or has grown since."""
    if log.is_remote:
        return None
    try:
        # Opening makes a network file system ask what is there now.
        with open_regular(log.os_path):
            size, mtime_ns = changed_at(log.os_path)
    except OSError as error:
        return error.strerror or str(error)
    is_older = mtime_ns < log.mtime_ns or (log.entry is None and size < log.size)
    return "another file, or an older state of it, is there" if is_older else None


def _read_piece(path: str, offset: int, count: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(count)


def _discard(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
