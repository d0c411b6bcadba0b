"""`turnlake build --follow`: a lake kept up beside a running harness.

Each build is a process of its own. So whatever one of them needs is given back when it ends, and a fault in
one ends that one only.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType

from turnlake.console import note

# A build that fails may find things mended next time; one that is used wrongly will not.
_WRONG_USAGE = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def follow(args: argparse.Namespace) -> int:
    """Builds until SIGINT or SIGTERM, every `args.every` seconds; a running build ends first. 0, or 2 for wrong usage.

    What each build prints goes to stdout as it comes.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = [signal.signal(number, on_signal) for number in _SIGNALS]
    try:
        return _build_until(stop.is_set, lambda: stop.wait(args.every), args)
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


def one_build(words: Sequence[str]) -> list[str]:
    """The command line of a single build in that of a following one."""
    kept, is_value = [], False
    for word in words:
        if not is_value and word != "--follow" and word.partition("=")[0] != "--every":
            kept.append(word)
        is_value = word == "--every"
    return kept


def _build_until(is_stopped: Callable[[], bool], pause: Callable[[], bool], args: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "turnlake", *one_build(args.words)]
    while not is_stopped():
        # In a group of its own it does not get the terminal's Ctrl-C: it ends as a whole build.
        code = subprocess.run(command, start_new_session=True, check=False).returncode
        if code == _WRONG_USAGE:
            return code
        if code:
            note(f"turnlake: this build exited with {code}; the next one follows", quiet=args.quiet)
        pause()
    return 0
