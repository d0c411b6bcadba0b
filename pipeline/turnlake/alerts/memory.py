"""What was reported already, so that `--new-only` reports a thing once.

A file in the lake: for each destination and alert the keys of the things that were reported and still fire. What stops
firing is forgotten, so a thing that comes back is reported again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnlake.alerts.run import Outcome
from turnlake.errors import LakeError
from turnlake.files import write_whole
from turnlake.lake.lock import hold_lock

FILE = "alerts.json"
LOCK = ".alerts.lock"

Key = tuple[str | None, ...]
Known = dict[str, set[Key]]


class Memory:
    """What one destination was told. Whoever holds it keeps other reports of new things waiting."""

    def __init__(self, path: Path, destination: str) -> None:
        self._path = path
        self._destination = destination
        self._all = _read(path)
        try:
            told = self._all.get(destination, {})
            self._known: Known = {alert: {tuple(key) for key in keys} for alert, keys in told.items()}
        except (AttributeError, TypeError) as error:
            raise _unreadable(path) from error

    def new(self, outcome: Outcome) -> Outcome:
        """Without what this destination was told before."""
        fired = tuple(thing for thing in outcome.fired if thing.key not in self._known.get(thing.alert, set()))
        return replace(outcome, fired=fired)

    def report(self, outcome: Outcome, told: Outcome) -> None:
        """Notes that `told` was delivered, where `outcome` is all that fires now. Raises LakeError."""
        firing, delivered = _keys(outcome), _keys(told)
        for alert in outcome.asked:
            still = self._known.get(alert, set()) & firing.get(alert, set())
            self._known[alert] = still | delivered.get(alert, set())
        kept = {alert: sorted(keys, key=str) for alert, keys in sorted(self._known.items()) if keys}
        content = json.dumps({**self._all, self._destination: kept}, indent=1).encode() + b"\n"
        try:
            write_whole(self._path, content)
        except OSError as error:
            raise LakeError(f"{self._path} can't be written: {error.strerror}; these things will come again") from error


@contextmanager
def remembering(lake: Path, destination: str, on_wait: Callable[[str], None]) -> Iterator[Memory]:
    """The memory of a destination, while no other report of new things runs. LakeError where it can't be used."""
    try:
        with hold_lock(lake / LOCK, on_wait=on_wait, who="another report of new alerts"):
            yield Memory(lake / FILE, destination)
    except PermissionError as error:
        raise LakeError(f"{error.filename}: {error.strerror}; --new-only has to write into the lake") from error


def _keys(outcome: Outcome) -> Known:
    keys: Known = {}
    for thing in outcome.fired:
        keys.setdefault(thing.alert, set()).add(thing.key)
    return keys


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _unreadable(path) from error
    if not isinstance(content, dict):
        raise _unreadable(path)
    return content


def _unreadable(path: Path) -> LakeError:
    return LakeError(f"{path} is not what --new-only writes. Remove it; then everything counts as new once.")
