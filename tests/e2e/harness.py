"""The real harness: one version of it, in a home of its own, with a model server for the world."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import turnlake
from e2e import chat_wire, messages_wire

# Seconds; the slowest scenario waits for two retries.
PATIENCE = 120
# Entry of the 0.1.5rc1 profile whose package is missing from its wheel: with it the profile does not load.
PATCH = "- id: session-title-llm\n  disabled: true\n"


@dataclass(frozen=True)
class Release:
    """A release of the runtime: the format it writes, the protocol it speaks, what its command line has."""

    version: str
    format: int
    wire: ModuleType
    can_title: bool

    def __str__(self) -> str:
        return f"dsh-{self.version}"


V3 = Release("0.1.5rc1", 3, chat_wire, can_title=False)
V4 = Release("0.2.1rc2", 4, messages_wire, can_title=True)


@dataclass(frozen=True)
class Harness:
    """A release, installed in `program`, that lives below `folder`."""

    release: Release
    program: Path
    folder: Path
    cache: Path
    address: str

    @property
    def sessions(self) -> Path:
        """The folder it keeps its logs in."""
        return self.folder / "dsh" / "sessions"

    @property
    def work(self) -> Path:
        """The folder its tools work in."""
        return self.folder / "work"

    @property
    def session_id(self) -> str:
        """The id of the one session in its home."""
        return self._session.name

    def log(self) -> turnlake.Log:
        """The log of that session: its highest generation, which is that of the release."""
        return turnlake.read_log(self._session / f"session.v{self.release.format}.jsonl.zstd")

    @contextmanager
    def running(self, task: str, session_id: str | None = None) -> Iterator[subprocess.Popen[str]]:
        """One run over `task`; whatever is left of it at the end of the block is ended."""
        with subprocess.Popen(
            self._command(task, session_id),
            cwd=self.work,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                _end(process)

    def run(self, task: str, session_id: str | None = None) -> int:
        """Runs over `task` to the end; gives the exit code."""
        with self.running(task, session_id) as process:
            output, _ = process.communicate(timeout=PATIENCE)
            print(output)
            return process.returncode

    @property
    def _session(self) -> Path:
        (folder,) = self.sessions.glob("*/*")
        return folder

    def _command(self, task: str, session_id: str | None) -> list[str]:
        command = [str(self.program), "--profile", "headless"]
        if not self.release.can_title:
            patch = self.folder / "patch.yml"
            patch.write_text(PATCH)
            command += ["--patch", str(patch)]
        if session_id is not None:
            command += ["--session-id", session_id]
        return [*command, task]

    def _environment(self) -> dict[str, str]:
        # Only what is named here: no key, proxy or setting of the machine reaches the harness, and the proxy
        # that nobody listens at catches whatever it might send elsewhere.
        nowhere = "http://127.0.0.1:9"
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.cache),
            "TMPDIR": str(self.cache),
            "LANG": "C.UTF-8",
            "DSH_HOME": str(self.folder / "dsh"),
            "DSH_PERMISSION_MODE": "danger-full-access",
            "DEEPSEEK_API_KEY": "dummy",
            "DEEPSEEK_BASE_URL": self.address + self.release.wire.BASE,
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1",
        }


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
