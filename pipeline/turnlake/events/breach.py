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
