"""Where batches are converted: a pool and a Dask cluster give the same files, whatever happens to its workers."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from dask_cluster import Cluster, running
from logs import Session, file_name, write
from turnlake import cli
from turnlake.commands.options import engine as engine_option
from turnlake.errors import TurnlakeError, UsageError
from turnlake.lake import dask as cluster
from turnlake.lake import workers
from turnlake.lake.ingest import Ingested, ingest
from turnlake.lake.log_table import rows_of_logs
from turnlake.lake.plan import Options
from turnlake.lake.state import Lake
from turnlake.sample.write import write_sample
from turnlake.sources.discover import Discovery, find_logs
from turnlake.sources.source import parse_source

with_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="the extra `dask` is not installed")

# What goes wrong on a worker, by a word in the path of a log.
TROUBLE = """
import os
from turnlake.sources.container import open_regular
from turnlake.lake import dask as cluster
from turnlake.lake.convert import convert

def convert_or_die(batch, *rest):
    if any("deadly" in log.path for log in batch.logs):
        os._exit(1)
    return convert(batch, *rest)

def open_or_miss(path):
    if "elsewhere" in path:
        raise FileNotFoundError(2, "No such file or directory", path)
    return open_regular(path)

cluster.convert, cluster.open_regular = convert_or_die, open_or_miss
"""


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("two"), 2) as two:
        yield two


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("troubled")
    (folder / "trouble.py").write_text(TROUBLE)
    settings = {"distributed.worker.preload": [str(folder / "trouble.py")], "distributed.scheduler.allowed-failures": 2}
    with running(folder, 1, **settings) as one:
        yield one


@pytest.fixture
def many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BATCH_BYTES", 100_000)


def found(root: Path) -> Discovery:
    return find_logs([parse_source(str(root))])


def sample_of(root: Path, sessions: int = 8, megabytes: float = 2.4) -> Discovery:
    write_sample(root, sessions=sessions, megabytes=megabytes, version=0, seed=7)
    return found(root)


def one_log(root: Path, session_id: str = "s1") -> Path:
    session = Session(0, id=session_id).turn()
    return write(root, session.raw, file_name(0), session=session_id)


def parquet(work: Path) -> dict[str, bytes]:
    return {str(path.relative_to(work)): path.read_bytes() for path in sorted(work.rglob("*.parquet"))}


def ingested(discovery: Discovery, work: Path, address: str | None, **options: object) -> Ingested:
    work.mkdir()
    on_logs_done = options.pop("on_logs_done", lambda count: None)
    return ingest(discovery, work, Options(None, cluster=address), on_logs_done)  # type: ignore[arg-type]


# The option


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("local", None),
        ("dask://head:8786", "head:8786"),
        ("dask://10.0.0.1:1", "10.0.0.1:1"),
        ("dask://[::1]:8786", "[::1]:8786"),
    ],
)
def test_engines(text: str, address: str | None) -> None:
    assert engine_option(text) == address


@pytest.mark.parametrize("text", ["", "dask", "dask://", "dask://head", "dask://:1", "dask://u@h:1", "tcp://h:1", "x"])
def test_what_is_no_engine(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="neither local nor dask://HOST:PORT"):
        engine_option(text)


def test_without_the_extra_the_next_step_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(cluster, "import_module", not_there)
    one_log(tmp_path / "root")
    with pytest.raises(UsageError, match=r"pip install 'turnlake\[dask\]'"):
        ingested(found(tmp_path / "root"), tmp_path / "work", "127.0.0.1:1")


@with_dask
def test_a_scheduler_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    one_log(tmp_path / "root")
    words = ["ingest", str(tmp_path / "root"), "--lake", str(tmp_path / "lake"), "--engine", "dask://127.0.0.1:1"]
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert "no Dask scheduler answers at 127.0.0.1:1" in said and "--engine local" in said
    assert Lake(tmp_path / "lake").current() is None


@with_dask
def test_a_cluster_without_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 2)
    one_log(tmp_path / "root")
    with running(tmp_path / "scratch", 0) as none, pytest.raises(UsageError, match="has no workers"):
        ingested(found(tmp_path / "root"), tmp_path / "work", none.address)


# The same files


@with_dask
@pytest.mark.usefixtures("many_batches")
def test_a_cluster_writes_the_files_that_one_process_writes(
    tmp_path: Path, two_workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that no file comes in one piece.
    monkeypatch.setattr(cluster, "PIECE_BYTES", 5000)
    discovery = sample_of(tmp_path / "root")
    here = ingested(discovery, tmp_path / "here", None)
    there = ingested(discovery, tmp_path / "there", two_workers.address)
    assert there == here
    assert parquet(tmp_path / "there") == parquet(tmp_path / "here")
    assert len(list((tmp_path / "here" / "events").iterdir())) > 4
    assert two_workers.batches() == {}


@with_dask
@pytest.mark.usefixtures("many_batches")
def test_a_worker_that_is_killed_midway_changes_nothing(tmp_path: Path) -> None:
    discovery = sample_of(tmp_path / "root")
    ingested(discovery, tmp_path / "here", None)
    with running(tmp_path / "scratch", 2) as two:
        killer = threading.Thread(target=kill_a_busy_worker, args=(two, killed := []), daemon=True)
        killer.start()
        ingested(discovery, tmp_path / "there", two.address)
        killer.join(60)
    assert len(killed) == 1
    assert parquet(tmp_path / "there") == parquet(tmp_path / "here")


def kill_a_busy_worker(two: Cluster, killed: list[int]) -> None:
    """Kill one worker once it has begun to write a batch."""
    while not (busy := two.batches()):
        time.sleep(0.002)
    pid = next(iter(busy.values()))
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)


@with_dask
def test_files_that_are_lost_with_their_worker_are_made_again(
    tmp_path: Path, two_workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovery = sample_of(tmp_path / "root", 2, 0.1)
    ingested(discovery, tmp_path / "here", None)
    losses = iter([True, False, True])
    losing(monkeypatch, lambda: next(losses, False))
    ingested(discovery, tmp_path / "there", two_workers.address)
    assert parquet(tmp_path / "there") == parquet(tmp_path / "here")
    losing(monkeypatch, lambda: True)
    with pytest.raises(TurnlakeError, match=r"part-00000.parquet \(2 logs from .* is given up: 3 workers were lost"):
        ingested(discovery, tmp_path / "never", two_workers.address)


def losing(monkeypatch: pytest.MonkeyPatch, is_lost: Callable[[], bool]) -> None:
    """Let the worker that has a file be gone when is_lost says so."""
    ask = cluster._Run._ask

    def ask_or_fail(run: cluster._Run, worker: str, *rest: object) -> object:
        return ask(run, "tcp://127.0.0.1:1" if is_lost() else worker, *rest)

    monkeypatch.setattr(cluster._Run, "_ask", ask_or_fail)


@with_dask
def test_growth_is_read_where_the_lake_is(tmp_path: Path, two_workers: Cluster) -> None:
    log, lake = one_log(tmp_path / "root"), Lake(tmp_path / "lake")
    one_log(tmp_path / "root", "s2")
    with lake.lock():
        for _ in range(2):
            work = lake.work_dir()
            options = Options(None, cluster=two_workers.address)
            done = ingest(found(tmp_path / "root"), work, options, before=lake.current())
            state = lake.commit_state(work)
            with log.open("ab") as file:
                file.write(b'{"type":"turn/start","seq":11,"time":1787659200011,"data":{"turn":2}}\n')
            one_log(tmp_path / "root", "s3")
    assert sorted(done.read) == [("--w--/s1/session.jsonl", "grown"), ("--w--/s3/session.jsonl", "new")]
    assert len(rows_of_logs(state)) == 3


# What is refused


@with_dask
def test_a_batch_that_kills_its_workers_is_named(tmp_path: Path, troubled: Cluster) -> None:
    one_log(tmp_path / "root", "deadly")
    with pytest.raises(
        TurnlakeError, match=r"part-00000.parquet \(1 logs from .*deadly.*: each worker that tried died"
    ):
        ingested(found(tmp_path / "root"), tmp_path / "work", troubled.address)


@with_dask
def test_a_worker_that_does_not_see_a_log_ends_the_build(tmp_path: Path, troubled: Cluster) -> None:
    one_log(tmp_path / "root", "elsewhere")
    with pytest.raises(UsageError, match=r"does not see .*elsewhere.* No such file .* Mount the logs at the same path"):
        ingested(found(tmp_path / "root"), tmp_path / "work", troubled.address)


@with_dask
def test_a_worker_that_sees_an_older_state_ends_the_build(tmp_path: Path, two_workers: Cluster) -> None:
    log = one_log(tmp_path / "root")
    discovery = found(tmp_path / "root")
    os.utime(log, ns=(0, discovery.logs[0].mtime_ns - 10**9))
    with pytest.raises(UsageError, match="another file, or an older state of it, is there"):
        ingested(discovery, tmp_path / "work", two_workers.address)


@with_dask
def test_a_log_that_vanished_for_all_is_no_error(tmp_path: Path, two_workers: Cluster) -> None:
    one_log(tmp_path / "root", "s2")
    log = one_log(tmp_path / "root")
    discovery = found(tmp_path / "root")
    log.unlink()
    assert ingested(discovery, tmp_path / "work", two_workers.address).read == (("--w--/s2/session.jsonl", "new"),)


@with_dask
def test_workers_need_the_same_turnlake(tmp_path: Path, two_workers: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cluster.versions() | {"turnlake": "99.0"}
    monkeypatch.setattr(cluster, "versions", lambda: here)
    one_log(tmp_path / "root")
    with pytest.raises(UsageError, match=r"the Dask worker tcp://.* has turnlake 0.* here is turnlake 99\.0"):
        ingested(found(tmp_path / "root"), tmp_path / "work", two_workers.address)
