"""The time a report is about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from turnlake.errors import UsageError


@dataclass(frozen=True)
class Period:
    """From `since` until just before `until`, aware instants; None is no limit. Its days are those of `tz`."""

    since: datetime | None
    until: datetime | None
    tz: tzinfo

    def __post_init__(self) -> None:
        """Raises UsageError for a period without an instant in it."""
        if self.since and self.until and self.since >= self.until:
            raise UsageError(f"--until {self.until.isoformat()} is not after --since {self.since.isoformat()}")

    @property
    def zone(self) -> str:
        """Name of the time zone."""
        return str(self.tz)

    def before(self) -> Period:
        """The period that ends where this one starts and is as long: in whole days, where this one has such.

        Raises UsageError where it has no start or no end.
        """
        if self.since is None or self.until is None:
            raise UsageError("--compare wants --since: all of time has no time before it")
        start, end = self.since.astimezone(self.tz), self.until.astimezone(self.tz)
        if start.time() == end.time() == time.min:
            day = start.date() - (end.date() - start.date())
            return Period(datetime.combine(day, time.min, tzinfo=self.tz).astimezone(UTC), self.since, self.tz)
        return Period(self.since - (self.until - self.since), self.since, self.tz)

    def text(self) -> str:
        """The period in words: its first and last day; the instants it lies between where it is not of whole days."""
        if self.since is None and self.until is None:
            return "all days"
        edges = [at.astimezone(self.tz) for at in (self.since, self.until) if at]
        if all(at.time() == time.min for at in edges):
            return self._days()
        if self.until is None:
            return f"since {self._instant(edges[0])}"
        since = "the beginning" if self.since is None else self._instant(edges[0])
        return f"from {since} until {self._instant(edges[-1])}"

    def _days(self) -> str:
        since = "the beginning" if self.since is None else self.since.astimezone(self.tz).date().isoformat()
        if self.until is None:
            return f"since {since}"
        last = (self.until.astimezone(self.tz) - timedelta(days=1)).date().isoformat()
        return last if last == since else f"{since} to {last}"

    def _instant(self, local: datetime) -> str:
        # The zone stands behind the period; only where clocks are moved does its name not tell the instant.
        text = local.isoformat(" ", "minutes")
        return text.removesuffix("+00:00") if self.zone == "UTC" else text


def instant_text(at: datetime | None) -> str | None:
    """An instant as ISO 8601 in UTC, to the millisecond."""
    return None if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
