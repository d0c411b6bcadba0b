"""`turnlake build --follow`: a lake kept up beside a running harness.

Each build is a process of its own. So whatever one of them needs is given back when it ends, and a fault in
one ends that one only.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType

from turnlake.console import note

_WRONG_USAGE = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def follow(args: argparse.Namespace) -> int:
    """Builds until SIGINT or SIGTERM, every `args.every` seconds; a running build ends first.

    What each build prints goes to stdout as it comes. 0, or 2 where the first build says that it was used wrongly.
    """
    words = one_build(args.words)
    has_built = False
    with _Stop() as stop:
        while not stop.is_asked_for:
            # In a group of its own it does not get the terminal's Ctrl-C: it ends as a whole build.
            command = [sys.executable, "-m", "turnlake", *words]
            code = subprocess.run(command, start_new_session=True, check=False).returncode
            # What worked once may work again: a source that is not mounted just now, a lake in use.
            if code == _WRONG_USAGE and not has_built:
                return code
            if code in (0, 1) and not has_built:
                has_built, words = True, [*(word for word in words if word != "--full"), "--again"]
            if code:
                note(f"turnlake: this build exited with {code}; the next one follows", quiet=args.quiet)
            stop.wait(args.every)
    return 0


def one_build(words: Sequence[str]) -> list[str]:
    """The command line of a single build in that of a following one."""
    kept, is_value = [], False
    for word in words:
        if not is_value and word != "--follow" and word.partition("=")[0] != "--every":
            kept.append(word)
        is_value = word == "--every"
    return kept


class _Stop:
    """Whether a signal asked to end. A pipe wakes who waits: a lock could be held when the signal comes."""

    def __init__(self) -> None:
        self.is_asked_for = False
        self._read, self._write = os.pipe()

    def __enter__(self) -> _Stop:
        self._before = [signal.signal(number, self._ask) for number in _SIGNALS]
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if not self.is_asked_for:
            self.is_asked_for = True
            os.write(self._write, b"\0")

    def wait(self, seconds: float) -> None:
        """Returns after that time, or at once when it is time to end."""
        select.select([self._read], [], [], seconds)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in zip(_SIGNALS, self._before, strict=True):
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)
