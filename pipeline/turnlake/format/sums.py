"""Findings that a log may hold any number of times: each is told once, where it came first, with its count."""

from __future__ import annotations

from collections.abc import Iterator

from turnlake.findings import Finding


class Sums:
    """Counts findings by code, in the order in which the codes came up."""

    def __init__(self) -> None:
        self._first: dict[str, Finding] = {}
        self._counts: dict[str, int] = {}

    def add(self, finding: Finding, count: int = 1) -> None:
        """The finding once more, or count times."""
        self._first.setdefault(finding.code, finding)
        self._counts[finding.code] = self._counts.get(finding.code, 0) + count

    def clear(self) -> None:
        """Forget all: it was about events that are not the session's own."""
        self._first, self._counts = {}, {}

    def findings(self) -> Iterator[Finding]:
        """One finding a code."""
        for code, finding in self._first.items():
            count = self._counts[code]
            yield finding if count == 1 else finding._replace(detail=f"{finding.detail}; {count:,} times in all")
