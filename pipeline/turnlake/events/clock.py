"""Times of a log's own events in order: first, last, and how often they go back."""

from __future__ import annotations

from turnlake.events.runs import Run


class Clock:
    """Sees event times in the order of the log. All times are Unix ms."""

    def __init__(self) -> None:
        self.earliest: int | None = None
        self.latest: int | None = None
        self.anomaly_count = 0
        self._before: int | None = None

    def forget(self) -> None:
        """The next event follows none: another branch begins."""
        self._before = None

    def see(self, time: int) -> bool:
        """An event's time; True where it is less than that of the event before."""
        went_back = self._before is not None and time < self._before
        self.anomaly_count += went_back
        self._before = time
        if self.earliest is None or time < self.earliest:
            self.earliest = time
        if self.latest is None or time > self.latest:
            self.latest = time
        return went_back

    def see_run(self, run: Run) -> int:
        """A run's times; how many of them are less than the one before."""
        went_back = int(self.see(run.time_ms))
        if run.dt:
            if min(run.dt) < 0:
                back = sum(step < 0 for step in run.dt)
                self.anomaly_count += back
                for time, _ in run.chunks():
                    self._widen(time)
                went_back += back
            self._widen(run.last_time_ms)
            self._before = run.last_time_ms
        return went_back

    def _widen(self, time: int) -> None:
        self.earliest = time if self.earliest is None else min(self.earliest, time)
        self.latest = time if self.latest is None else max(self.latest, time)
