"""What the totals of a report lack, counted and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from turnlake.console import plain, plural
from turnlake.reports.usage.numbers import count, listed
from turnlake.reports.usage.questions import Row


@dataclass(frozen=True)
class Lacks:
    """Calls and tokens are those of the period; logs, lines and prefixes those of the lake, for they tell no time."""

    unpriced_models: tuple[str, ...]
    unpriced_attempt_count: int
    unpriced_tokens: int
    unknown_usage_attempt_count: int
    unmetered_call_count: int
    undated_attempt_count: int
    refused_log_count: int
    unread_log_count: int
    unread_line_count: int
    orphan_prefix_event_count: int

    @property
    def is_partial(self) -> bool:
        """Whether there is anything."""
        return any(getattr(self, field.name) for field in fields(self))

    def sentences(self) -> Iterator[str]:
        """Each lack in words, for people; names out of logs as plain text."""
        if self.unpriced_attempt_count:
            calls = plural(self.unpriced_attempt_count, "call")
            models = listed([plain(name) for name in self.unpriced_models])
            yield f"{calls} without a price, {count(self.unpriced_tokens)} tokens: {models}"
        if self.unknown_usage_attempt_count:
            yield f"{plural(self.unknown_usage_attempt_count, 'call')} whose usage no log tells"
        if self.unmetered_call_count:
            yield f"{plural(self.unmetered_call_count, 'call')} for titles or web searches, which no log meters"
        if self.undated_attempt_count:
            yield f"{plural(self.undated_attempt_count, 'call')} at no known time, which belong to no period"
        if self.unread_log_count:
            logs = plural(self.unread_log_count, "log")
            yield f"{logs} that could not be read; `turnlake doctor` names what was found"
        if self.refused_log_count:
            logs = plural(self.refused_log_count, "log")
            yield f"what can't be read of {logs} that the harness would refuse"
        if self.unread_line_count:
            yield f"{plural(self.unread_line_count, 'line')} that could not be read"
        if self.orphan_prefix_event_count:
            yield f"{plural(self.orphan_prefix_event_count, 'event')} inherited from logs that are not in the lake"


def lacks_of(totals: Row, unpriced: Sequence[Row], unmetered: Sequence[Row], built: Row, *, has_limits: bool) -> Lacks:
    """The lacks of a period from the answers of `usage`, `unpriced`, `unmetered` and `built_from`."""
    return Lacks(
        unpriced_models=tuple(row["model"] for row in unpriced),
        unpriced_attempt_count=totals["unpriced_attempt_count"],
        unpriced_tokens=sum(row["total_tokens"] for row in unpriced),
        unknown_usage_attempt_count=totals["unknown_usage_attempt_count"],
        unmetered_call_count=sum(row["call_count"] for row in unmetered),
        undated_attempt_count=built["undated_attempt_count"] if has_limits else 0,
        refused_log_count=built["refused_log_count"],
        unread_log_count=built["unread_log_count"],
        unread_line_count=built["unread_line_count"],
        orphan_prefix_event_count=built["orphan_prefix_event_count"],
    )
