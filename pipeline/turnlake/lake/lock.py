"""One build at a time: an advisory lock on the lake that ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turnlake.errors import LakeError
from turnlake.files import open_private

# How long to wait in silence, and how often to look meanwhile, in seconds.
PATIENCE_S = 1.0
GLANCE_S = 0.05

_held: set[int] = set()


def _let_go_in_child() -> None:
    # A forked child shares the lock as long as it has the descriptor: a worker that outlives its killed parent
    # would keep everyone out.
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


@contextmanager
def hold_lock(
    path: Path, wait: bool = True, on_wait: Callable[[str], None] | None = None, who: str = "another build"
) -> Iterator[None]:
    """Hold the lock while the block runs. The file at path stays; it names the process that held it last.

    Where another holds it: wait, after a second telling `on_wait` in one line for whom; with wait=False LakeError.
    `who` is what else may hold it, for both.
    """
    descriptor = open_private(path, os.O_RDWR)
    _held.add(descriptor)
    try:
        _acquire(descriptor, wait, on_wait, who)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        if descriptor in _held:
            _held.remove(descriptor)
            os.close(descriptor)


def _acquire(descriptor: int, wait: bool, on_wait: Callable[[str], None] | None, who: str) -> None:
    if _try(descriptor):
        return
    if not wait:
        raise LakeError(f"{who} is running{_holder(descriptor)}. Wait for it, or leave out --no-wait.")
    glances = round(PATIENCE_S / GLANCE_S)
    for _ in range(glances):
        time.sleep(GLANCE_S)
        if _try(descriptor):
            return
    if on_wait is not None:
        on_wait(f"{who} is running{_holder(descriptor)}; waiting for it to end")
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    # Empty for the instant between taking the lock and writing the number.
    pid = os.pread(descriptor, 20, 0).decode("ascii", "replace")
    return f" (pid {pid})" if pid.isdecimal() else ""
