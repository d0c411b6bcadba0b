"""What an event breaks of the rules of its format."""

from __future__ import annotations

from typing import NamedTuple

from turnlake.findings import Severity


class Breach(NamedTuple):
    """One broken statement: its id in spec section 11, how grave, what exactly."""

    id: str
    severity: Severity
    detail: str
    # The verdict reason, where the breach has one of its own.
    reason: str = "invariant"
    # Told once a log, with how often: of the session's own events only.
    is_summed: bool = False


def warning(id: str, detail: str) -> Breach:
    """A breach for which the harness reads the log all the same."""
    return Breach(id, "warning", detail)


def counted(id: str, severity: Severity, detail: str) -> Breach:
    """A breach that a log may hold any number of times; the detail says what is counted."""
    return Breach(id, severity, detail, is_summed=True)
