"""Times of a log's own events in order: first, last, and how often they go back."""

from __future__ import annotations

from collections.abc import Iterable

from turnlake.format.values import MAX_SAFE

_NOTHING_YET = MAX_SAFE + 1


class Clock:
    """Sees event times in the order of the log. All times are Unix ms; None before the first."""

    def __init__(self) -> None:
        self.anomaly_count = 0
        self.before = _NOTHING_YET
        self._low: int | None = None
        self._high: int | None = None

    @property
    def earliest(self) -> int | None:
        """The smallest time seen."""
        return self._low

    @property
    def latest(self) -> int | None:
        """The largest time seen."""
        if self.before == _NOTHING_YET:
            return self._high
        return self.before if self._high is None else max(self._high, self.before)

    def forget(self) -> None:
        """The next event follows none: another branch begins."""
        self._high, self.before = self.latest, _NOTHING_YET

    def see(self, time: int) -> bool:
        """An event's time; True where it is less than that of the event before."""
        if time >= self.before:
            self.before = time
            return False
        went_back = self.before != _NOTHING_YET
        self.anomaly_count += went_back
        self.forget()
        self._low = time if self._low is None else min(self._low, time)
        self.before = time
        return went_back

    def see_run(self, first: int, last: int, times: Iterable[int] | None) -> int:
        """The times of a run of chunks; how many are less than the one before.

        `times` are all of them, None where they rise from first to last.
        """
        if times is not None:
            return sum(map(self.see, times))
        went_back = self.see(first)
        self.before = last
        return int(went_back)
