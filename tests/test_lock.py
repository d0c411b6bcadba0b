from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from turnlake.errors import LakeError
from turnlake.lake import lock
from turnlake.lake.state import Lake

HOLDER = """
import sys
from pathlib import Path
from turnlake.lake.state import Lake
with Lake(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""
# Forks a worker that outlives it, then waits to be killed.
HOLDER_WITH_WORKER = """
import os, sys
from pathlib import Path
from turnlake.lake.state import Lake
with Lake(Path(sys.argv[1])).lock():
    worker = os.fork()
    if worker == 0:
        print(os.getpid(), flush=True)
    sys.stdin.read()
"""


def start(program: str, lake: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, str(lake)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_without_waiting_a_second_build_is_refused_and_told_who_builds(tmp_path: Path) -> None:
    holder = start(HOLDER, tmp_path)
    assert first_line(holder) == "held"
    with pytest.raises(LakeError, match=rf"another build is running \(pid {holder.pid}\)"), Lake(tmp_path).lock(False):
        pass
    end(holder)
    with Lake(tmp_path).lock(wait=False):
        pass


def test_waiting_says_so_once_and_then_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE_S", 0.0)
    holder = start(HOLDER, tmp_path)
    first_line(holder)
    said: list[str] = []

    def on_wait(line: str) -> None:
        said.append(line)
        end(holder)

    with Lake(tmp_path).lock(on_wait=on_wait):
        assert said == [f"another build is running (pid {holder.pid}); waiting for it to end"]


def test_a_short_wait_is_silent(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    entered = threading.Event()
    said: list[str] = []

    def build() -> None:
        entered.wait()
        with lake.lock(on_wait=said.append):
            pass

    other = threading.Thread(target=build)
    other.start()
    with lake.lock():
        entered.set()
    other.join()
    assert said == []


def test_a_killed_build_blocks_nobody(tmp_path: Path) -> None:
    holder = start(HOLDER, tmp_path)
    first_line(holder)
    holder.kill()
    end(holder)
    with Lake(tmp_path).lock(wait=False):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_worker_that_outlives_its_killed_build_blocks_nobody(tmp_path: Path) -> None:
    holder = start(HOLDER_WITH_WORKER, tmp_path)
    worker = int(first_line(holder))
    holder.kill()
    holder.wait()
    try:
        os.kill(worker, 0)
        with Lake(tmp_path).lock(wait=False):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)
        end(holder)


def test_the_lock_ends_with_the_block_also_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Lake(tmp_path).lock():
        raise ZeroDivisionError
    with Lake(tmp_path).lock(wait=False):
        pass


def test_a_lake_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with pytest.raises(LakeError, match="can't be a lake"), Lake(tmp_path / "lake").lock():
        pass
