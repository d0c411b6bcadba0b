"""`build --follow` beside a writer: reads what is new, stands in nobody's way, ends cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from logs import Session, file_name, frame
from test_incremental import assert_as_fresh, ingest, loads
from turnlake.commands import follow as follow_module
from turnlake.commands.follow import follow, one_build


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def append(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def pieces(session: Session, container: str) -> list[bytes]:
    """A log as its writer appends it: frame by frame, or line by line."""
    return [frame(line + b"\n") if container == "zstd" else line + b"\n" for line in session.lines]


def until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def following(root: Path, lake: Path) -> subprocess.Popen[str]:
    words = ["build", str(root), "--lake", str(lake), "--follow", "--every", "0.2s", "--workers", "1"]
    return subprocess.Popen(
        [sys.executable, "-m", "turnlake", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_count(lake: Path) -> int:
    return len(loads(lake)) if (lake / "loads.jsonl").exists() else 0


@pytest.mark.parametrize(("number", "container"), [(signal.SIGTERM, "zstd"), (signal.SIGINT, "raw")])
def test_beside_a_writer(number: signal.Signals, container: str, root: Path, lake: Path) -> None:
    """The log grows, is carried over to a newer generation, and goes on there; then a signal ends it all."""
    process = following(root, lake)
    for version in (3, 4):
        path = root / "--w--" / "s1" / file_name(version, container)
        for piece in pieces(Session(version).turn().turn_with_call().turn(), container):
            append(path, piece)
            time.sleep(0.05)
    runs = run_count(lake)
    until(lambda: run_count(lake) > runs + 1)
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert out.count("seen: ") >= 2
    assert sum(load["logs_read"] for load in loads(lake)) >= 2
    assert {read["why"] for load in loads(lake) for read in load["read"]} <= {"new", "grown"}
    assert not list(lake.glob(".build-*"))
    assert_as_fresh(lake, root, with_marts=True)


def test_a_signal_during_a_build_lets_it_end(root: Path, lake: Path) -> None:
    append(root / "--w--" / "s1" / "session.v4.jsonl", Session(4).turn().raw)
    process = following(root, lake)
    until(lambda: any(lake.glob(".build-*")) if lake.exists() else False)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors, run_count(lake)) == (0, "", 1)
    assert (lake / "turnlake.duckdb").exists()


def test_an_hour_of_builds_beside_a_busy_harness(root: Path, lake: Path) -> None:
    """Some hundred appends, some cut inside a frame and gone on with, a build after each few."""
    rng = Random(7)
    writers: list[tuple[Path, bytes]] = []
    for number, container in enumerate(("raw", "zstd", "zstd", "raw")):
        session = Session(number + 1, id=f"s{number}")
        for _ in range(6):
            rng.choice((session.turn, session.turn_with_call))()
        path = root / "--w--" / f"s{number}" / file_name(number + 1, container)
        whole = b"".join(pieces(session, container))
        writers.append((path, whole))
    written = dict.fromkeys((path for path, _ in writers), 0)
    builds = 0
    while any(written[path] < len(data) for path, data in writers):
        path, data = rng.choice(writers)
        count = rng.randint(1, 500)
        append(path, data[written[path] : written[path] + count])
        written[path] = min(len(data), written[path] + count)
        if rng.random() < 0.5:
            load = ingest(lake, root)
            builds += 1
            assert load["logs_read"] + load["logs_unchanged"] == load["logs_seen"]
    ingest(lake, root)
    assert builds > 30
    assert {read["why"] for load in loads(lake) for read in load["read"]} == {"new", "grown"}
    assert_as_fresh(lake, root, with_marts=True)


# Its loop, without builds.


class Script:
    """Stands for the builds: their exit codes, in order; after the last one a signal comes."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.commands: list[list[str]] = []

    def run(self, command: list[str], **options: Any) -> Any:
        self.commands.append(command[3:])
        code = self.codes.pop(0)
        if not self.codes:
            os.kill(os.getpid(), signal.SIGTERM)
        return subprocess.CompletedProcess(command, code)


def followed(monkeypatch: pytest.MonkeyPatch, script: Script, *words: str) -> int:
    monkeypatch.setattr(follow_module.subprocess, "run", script.run)
    before = signal.getsignal(signal.SIGTERM)
    code = follow(Namespace(words=["build", *words], every=0.01, quiet=True))
    assert signal.getsignal(signal.SIGTERM) == before
    return code


def test_wrong_usage_ends_it_only_before_anything_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert followed(monkeypatch, Script(2, 0), "x") == 2
    script = Script(0, 2, 3, 0)
    assert followed(monkeypatch, script, "x") == 0
    assert len(script.commands) == 4


def test_everything_is_read_again_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(3, 0, 0)
    assert followed(monkeypatch, script, "x", "--full", "--follow") == 0
    assert script.commands == [["build", "x", "--full"], ["build", "x", "--full"], ["build", "x", "--again"]]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("build x --follow --every 5s -q", "build x -q"),
        ("build --every=5s --follow x", "build x"),
        ("build x", "build x"),
    ],
)
def test_one_build_of_many(words: str, kept: str) -> None:
    assert one_build(words.split()) == kept.split()
