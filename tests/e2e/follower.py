"""turnlake beside a running harness, and what its lake says."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import turnlake
from turnlake.errors import LakeError

Rows = list[tuple[Any, ...]]
# Seconds between two looks at a lake that another process builds.
PAUSE = 0.5
EVENTS = "select log_id, list((seq, type, time_ms) order by line) from raw.events group by log_id"


@dataclass
class Follower:
    """Builds `lake` from `sessions` while the harness writes there: run after run, or with `build --follow`."""

    sessions: Path
    lake: Path
    follows: bool
    builds: list[subprocess.CompletedProcess[str]] = field(default_factory=list)
    looks: list[dict[str, Rows]] = field(default_factory=list)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Builds for as long as the block lasts, then once more; every build has to succeed and to lose nothing."""
        self.sessions.mkdir(parents=True, exist_ok=True)
        with self._following() if self.follows else _repeated(self._build):
            yield
        before = self._files()
        self._build()
        assert self._files() == before, "a build changed the logs"
        for build in self.builds:
            # With -q a build that goes well says nothing, but that the harness has written nothing yet; one of --follow
            # that fails says so and is tried again.
            said = [line for line in build.stderr.splitlines() if not line.startswith("turnlake: no log was found")]
            assert (build.returncode, said) == (0, [])
        self._check_growth()

    def query(self, sql: str) -> Rows:
        """The rows of a query on the lake as it stands; none while there is no lake."""
        try:
            with turnlake.connect(self.lake) as db:
                return db.execute(sql).fetchall()
        except LakeError:
            return []

    def _build(self) -> None:
        self.builds.append(subprocess.run(self._command(), text=True, capture_output=True, timeout=120))
        self._look()

    def _look(self) -> None:
        self.looks.append(dict(self.query(EVENTS)))

    def _check_growth(self) -> None:
        """What one state of the lake held, the next holds as well, at the same place."""
        for before, after in zip(self.looks, self.looks[1:], strict=False):
            for log, events in before.items():
                assert after[log][: len(events)] == events

    def _files(self) -> dict[Path, tuple[int, str]]:
        """Time and content of everything the harness keeps beside its logs."""
        files = [path for path in self.sessions.rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files}

    def _command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "turnlake", "build", str(self.sessions), "--lake", str(self.lake), "-q", *more]

    @contextmanager
    def _following(self) -> Iterator[None]:
        command = self._command("--follow", "--every", "1s")
        with (
            subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
            _repeated(self._look, PAUSE),
        ):
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)
                output, errors = process.communicate(timeout=60)
                self.builds.append(subprocess.CompletedProcess(command, process.returncode, output, errors))


@contextmanager
def _repeated(work: Callable[[], None], pause: float = 0) -> Iterator[None]:
    """Does the work over and over in a thread while the block lasts."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause):
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
