"""A sessions root that lives, a lake that follows it, and what must hold after anything that happened to either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from logs import Session, as_zstd, file_name, write
from test_incremental import assert_as_fresh
from turnlake.api import connect
from turnlake.lake.state import Lake

# Turns and events of a session as it is made here.
TURN_EVENTS = 6
# A log's time is set by hand: later than the last one, or earlier, when the clock is turned back.
START_S = 1_500_000_000
TRACEBACK = "Traceback (most recent call last)"


class World:
    """Sessions below `root` and the lake of them; every choice comes from the seed."""

    def __init__(self, folder: Path, seed: int, lake: Path | None = None) -> None:
        self.rng = Random(seed)
        self.root, self.lake = folder / "root", lake or folder / "lake"
        self.sessions: dict[str, Session] = {}
        self.clock_s = START_S
        self.step_forward_s = 7
        for _ in range(3):
            self.add()

    def add(self) -> None:
        """One more session, of any version, raw or compressed."""
        number = len(self.sessions)
        session = Session(self.rng.choice((0, 2, 3, 4)), id=f"s{number}")
        self.sessions[f"s{number}"] = session.turn()
        self.put(f"s{number}")

    def put(self, name: str, cut: int = 0) -> None:
        """Write the log of a session, without its last bytes; every second one is compressed."""
        session = self.sessions[name]
        is_zstd = int(name[1:]) % 2 == 1
        data = as_zstd(session.lines, [1] * len(session.lines)) if is_zstd else session.raw
        path = write(self.root, data[: len(data) - cut], file_name(session.version, "zstd" if is_zstd else "raw"), name)
        self.clock_s += self.step_forward_s
        os.utime(path, (self.clock_s, self.clock_s))

    def logs(self) -> list[Path]:
        """The logs there are, in order."""
        return sorted(self.root.rglob("session.*"))

    def step(self) -> None:
        """Something happens to a few logs, and one grows for sure."""
        for name in self.rng.sample(sorted(self.sessions), 2):
            self.change(name)
        self.add() if self.rng.random() < 0.3 else self.grow(self.rng.choice(sorted(self.sessions)))

    def change(self, name: str) -> None:
        """A log grows, is cut, written anew with other words and equal length, or removed."""
        happening = self.rng.choice((self.grow, self.grow, self.cut, self.rewrite, self.remove))
        happening(name)

    def grow(self, name: str) -> None:
        self.sessions[name].turn(f"words {self.rng.random()}")
        self.put(name)

    def cut(self, name: str) -> None:
        self.put(name, cut=self.rng.randint(1, 40))

    def rewrite(self, name: str) -> None:
        session = self.sessions[name]
        session.lines = [line.replace(b"Hello", b"Hallo").replace(b"Hi", b"Oh") for line in session.lines]
        self.put(name)

    def remove(self, name: str) -> None:
        for path in self.root.glob(f"*/{name}/session.*"):
            path.unlink()

    def turn_clock_back(self) -> None:
        """From now on each log is older than the one written before it."""
        self.clock_s, self.step_forward_s = START_S - 10_000, -7

    # What is run.

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "turnlake", *words, "--lake", str(self.lake)]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A build in a process of its own."""
        command = self.command("build", str(self.root), "-q", "--workers", self.rng.choice("12"), *words)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def build(self, *words: str) -> tuple[int, str]:
        """A build that ends; its exit code and what it says to stderr."""
        return ended(self.start(*words))

    def doctor(self) -> dict[str, Any]:
        """What the doctor says; it always has something to say."""
        command = self.command("doctor", str(self.root), "--json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 1), done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    # What must hold.

    def database(self) -> tuple[int, ...] | None:
        """Numbers of the published database, which agree with one another; None before there is one."""
        if not Lake(self.lake).database.exists():
            return None
        with connect(self.lake) as db:
            numbers = db.execute(
                "select (select count(*) from marts.turns), (select count(*) from raw.events), "
                "(select coalesce(sum(event_count), 0)::bigint from raw.logs), "
                "(select coalesce(sum(turn_count), 0)::bigint from marts.sessions)"
            ).fetchone()
        assert numbers is not None and numbers[0] == numbers[3]
        return numbers

    def assert_mended(self, *words: str) -> None:
        """The next build works, leaves nothing behind, and its lake is the one that would be made from nothing."""
        code, said = self.build("--purge-missing", *words)
        assert (code, TRACEBACK in said) == (0, False), said
        health = self.doctor()["lake"]
        assert (health["status"], health["damaged"], health["leftovers"]) == ("ready", [], []), health
        assert_as_fresh(self.lake, self.root, with_marts=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and stderr of a process, once it has ended."""
    _, said = process.communicate(timeout=300)
    return process.returncode, said
