"""Builds that are killed, that meet, and that are read from meanwhile: the old state or the new one, whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from conftest import Run
from logs import Session, as_zstd, file_name
from test_incremental import assert_as_fresh, build, contents, current, log
from turnlake.api import connect
from turnlake.cli import main
from turnlake.lake.state import STEPS, Lake
from turnlake.rows import tables

# Builds killed at a random instant; TURNLAKE_KILLS=50 kills more of them.
KILLS = int(os.environ.get("TURNLAKE_KILLS", "8"))
BUILDS = 20 if KILLS >= 20 else 6


class Growing:
    """A sessions root of some sessions; with each step they grow by a turn, one by torn bytes, and one more begins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions: list[Session] = []
        self.turns = 0

    def step(self) -> None:
        self.sessions.append(Session(4, id=f"s{len(self.sessions)}"))
        for number, session in enumerate(self.sessions[-4:], max(0, len(self.sessions) - 4)):
            session.turn()
            self.turns += 1
            if number % 2:
                log(self.root, as_zstd(session.lines, [1] * len(session.lines)), file_name(4, "zstd"), f"s{number}")
            else:
                log(self.root, session.raw + b'{"type":', session=f"s{number}")


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    return Growing(tmp_path / "root")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def turns(lake: Path) -> int:
    """The turns of the published state; the numbers of the database agree with one another."""
    with connect(lake) as db:
        numbers = db.execute(
            "select (select count(*) from marts.turns), (select sum(turn_count) from marts.sessions), "
            "(select count(*) from raw.events where type = 'turn/start'), "
            "(select count(*) from marts.attempts), "
            "(select (sum(event_count) / 6)::bigint from raw.logs)"
        ).fetchone()
    assert numbers is not None and len(set(numbers)) == 1
    return int(numbers[0])


def started(growing: Growing, lake: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "turnlake", "build", str(growing.root), "--lake", str(lake), "-q", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=100)
    return process.returncode


def doctor(growing: Growing, lake: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the doctor says about the lake, its reasons as one text."""
    capsys.readouterr()
    assert main(["doctor", str(growing.root), "--lake", str(lake), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    return "\n".join([report["lake"]["status"], *(reason["text"] for reason in report["reasons"])])


def assert_at_rest(lake: Path) -> None:
    """Nothing is left over, and a plain glob holds what the database reads."""
    assert sorted(path.name for path in lake.glob(".build-*")) == []
    assert not [path for path in (lake / ".states").iterdir() if path.suffix == ".old"]
    for table in tables.TABLES:
        names = [path.name for path in current(lake).part_files(table)]
        assert sorted(path.name for path in (lake / table).iterdir()) == names
        assert all((lake / table / path.name).samefile(path) for path in current(lake).part_files(table))


def test_builds_killed_at_any_moment(growing: Growing, lake: Path) -> None:
    growing.step()
    begin = time.monotonic()
    assert ended(started(growing, lake)) == 0
    duration = time.monotonic() - begin
    rng = Random(3)
    known = {growing.turns}
    for _ in range(KILLS):
        growing.step()
        known.add(growing.turns)
        process = started(growing, lake, "--workers", rng.choice("12"))
        time.sleep(rng.random() * duration)
        process.kill()
        ended(process)
        assert turns(lake) in known
    build(lake, growing.root)
    assert turns(lake) == growing.turns
    assert_at_rest(lake)
    assert_as_fresh(lake, growing.root, with_marts=True)


KILL_AT = """
import os, signal, sys
from turnlake.cli import main
from turnlake.commands import steps
from turnlake.lake.state import Lake
at, *words = sys.argv[1:]
def on_step(step):
    if step == at:
        os.kill(os.getpid(), signal.SIGKILL)
steps.Lake = lambda path: Lake(path, on_step)
raise SystemExit(main(words))
"""
PUBLISHED = STEPS.index("database published")
NOT_IN_EVERY_BUILD = ("part removed", "state retired", "state removed")
# What the doctor says besides that a build was killed.
SAYS = {
    "state current": "behind",
    "database announced": "behind",
    "database published": "the database is right, the Parquet folders are not yet",
    "part linked": "the database is right, the Parquet folders are not yet",
    "part removed": "the database is right, the Parquet folders are not yet",
}


def test_killed_after_each_step(growing: Growing, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    growing.step()
    build(lake, growing.root)
    for step in STEPS:
        before = growing.turns
        growing.step()
        words = ["build", str(growing.root), "--lake", str(lake), "--workers", "1", "-q"]
        done = subprocess.run([sys.executable, "-c", KILL_AT, step, *words], capture_output=True, timeout=100)
        assert done.returncode == -signal.SIGKILL or step in NOT_IN_EVERY_BUILD
        assert turns(lake) == (growing.turns if STEPS.index(step) >= PUBLISHED else before)
        said = doctor(growing, lake, capsys)
        if done.returncode:
            assert "a build was killed and left .build-" in said
            assert SAYS.get(step, "") in said
        build(lake, growing.root)
        assert turns(lake) == growing.turns
        assert_at_rest(lake)
        said = doctor(growing, lake, capsys)
        assert said.startswith("ready") and "killed" not in said and "written to" not in said
    assert_as_fresh(lake, growing.root, with_marts=True)


def test_the_summary_after_a_kill_is_of_the_new_database(
    growing: Growing, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed between publishing and keeping the summary: the next build has nothing to do, and knows that."""
    growing.step()
    build(lake, growing.root)
    growing.step()
    words = ["build", str(growing.root), "--lake", str(lake), "--workers", "1", "-q"]
    subprocess.run([sys.executable, "-c", KILL_AT, "folders settled", *words], capture_output=True, timeout=100)
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["logs_read"], said["sessions"]["turn_count"]) == (0, growing.turns)


def test_a_line_torn_in_the_loads_spoils_no_query(growing: Growing, lake: Path) -> None:
    growing.step()
    build(lake, growing.root)
    with (lake / "loads.jsonl").open("ab") as file:
        file.write(b'{"started_at":"20')
    with connect(lake) as db:
        assert db.execute("select count(*) from raw.loads where logs_read > 0").fetchone() == (1,)
    build(lake, growing.root)
    with connect(lake) as db:
        assert db.execute("select count(*) from raw.loads").fetchone() == (2,)


# Builds that meet.


def test_of_two_builds_both_end_well(growing: Growing, lake: Path) -> None:
    growing.step()
    both = [started(growing, lake) for _ in range(2)]
    assert [ended(process) for process in both] == [0, 0]
    assert turns(lake) == growing.turns
    assert_at_rest(lake)


def test_without_waiting_the_second_one_is_refused(growing: Growing, lake: Path, turnlake: Run) -> None:
    growing.step()
    with Lake(lake).lock():
        refused = turnlake("build", str(growing.root), "--lake", str(lake), "--no-wait")
        waiting = started(growing, lake)
        time.sleep(0.5)
        assert waiting.poll() is None
    assert (refused.returncode, f"pid {os.getpid()}" in refused.stderr) == (2, True)
    assert ended(waiting) == 0
    assert turns(lake) == growing.turns


def test_the_lock_of_a_dead_build_blocks_nobody(growing: Growing, lake: Path) -> None:
    growing.step()
    lake.mkdir()
    (lake / ".lock").write_text("1")
    assert ended(started(growing, lake, "--no-wait")) == 0


# Readers.

READER = """
import sys, threading
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_kill import turns
from turnlake.api import connect
lake, seen, is_over = Path(sys.argv[1]), [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
print("reading", flush=True)
QUERY = "select count(*), sum(turn) from marts.turns, (select count(*) from raw.events) e"
while not is_over.is_set():
    seen.append(turns(lake))
    with connect(lake) as db:
        assert db.execute(QUERY).fetchone() == db.execute(QUERY).fetchone()
        assert db.execute("select count(*) from raw.loads").fetchone() >= (1,)
assert seen == sorted(seen), seen
print(len(seen), len(set(seen)))
"""


@pytest.fixture
def reader(growing: Growing, lake: Path) -> Iterator[subprocess.Popen[str]]:
    growing.step()
    build(lake, growing.root)
    command = [sys.executable, "-c", READER, str(lake), *sys.path]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "reading\n"
    yield process
    process.kill()
    process.communicate()


def test_a_reader_sees_no_half_state(growing: Growing, lake: Path, reader: subprocess.Popen[str]) -> None:
    for _ in range(BUILDS):
        growing.step()
        build(lake, growing.root)
    out, errors = reader.communicate("", timeout=100)
    assert (reader.returncode, errors) == (0, "")
    reads, states = map(int, out.split())
    assert reads > states > 1
    rows = sum(pq.read_metadata(path).num_rows for path in (lake / "events").glob("*.parquet"))
    assert rows == len(contents(lake)["events"])


# Two workers that say so and then have a lot to do.
BUSY = """
import os, time
from turnlake.lake import workers as engine

def job(number):
    os.write(1, b"%d\\n" % number)
    time.sleep(600)

list(engine.run(job, [1, 2], 2))
"""


def test_workers_end_with_a_build_that_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert sorted(process.stdout.readline() for _ in range(2)) == [b"1\n", b"2\n"]
    process.kill()
    # It ends once nobody has its other end any more.
    assert process.communicate(timeout=60) == (b"", None)
