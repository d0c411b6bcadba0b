"""Times of a log's own events in order: first, last, and how often they go back."""

from __future__ import annotations

from turnlake.events.runs import Run
from turnlake.events.values import MAX_SAFE

_NEVER = -MAX_SAFE - 1


class Clock:
    """Sees event times in the order of the log. All times are Unix ms; None before the first."""

    def __init__(self) -> None:
        self.anomaly_count = 0
        self._before = _NEVER
        self._low: int | None = None
        self._high = _NEVER

    @property
    def earliest(self) -> int | None:
        """The smallest time seen."""
        return self._low

    @property
    def latest(self) -> int | None:
        """The largest time seen."""
        return None if self._low is None else max(self._high, self._before)

    def forget(self) -> None:
        """The next event follows none: another branch begins."""
        self._high = max(self._high, self._before)
        self._before = _NEVER

    def see(self, time: int) -> bool:
        """An event's time; True where it is less than that of the event before."""
        if time >= self._before:
            if self._before == _NEVER:
                self._low = time if self._low is None else min(self._low, time)
            self._before = time
            return False
        self.anomaly_count += 1
        self.forget()
        self.see(time)
        return True

    def see_run(self, run: Run) -> int:
        """A run's times; how many of them are less than the one before."""
        went_back = int(self.see(run.time_ms))
        if run.is_rising:
            self._before = run.last_time_ms
            return went_back
        for time, _ in list(run.chunks())[1:]:
            went_back += self.see(time)
        return went_back
