"""The harness's verdict on a log, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What the harness would do with the log (product contract, reading policy), and what was counted.

    `verdict` is clean, removable_tail or refused; `reason` and `line` say why and where it is not clean.
    """

    verdict: str
    reason: str | None
    line: int | None
    dialect: str | None
    accepted_event_count: int
    inherited_event_count: int
    event_count: int
    dropped_record_count: int
    unread_line_count: int
    has_unknown_required_type: bool
