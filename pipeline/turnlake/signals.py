"""SIGTERM ends a command as Ctrl-C does: what it had begun is cleared up, and its workers end with it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_asked: list[int] = []


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Lets SIGTERM raise KeyboardInterrupt while the block runs; `was_terminated` tells the two apart."""
    _asked.clear()
    # Only the main thread may say so, and only it gets the signal.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:
            # A forked worker has nothing to clear up: raised in it, the interrupt would only be told on stderr.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        _asked.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def was_terminated() -> bool:
    """Whether SIGTERM came. What was raised then may have become another exception on its way through a library."""
    return bool(_asked)
