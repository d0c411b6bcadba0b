"""A warehouse of DeepSeek Harness session logs.

    import turnlake

    con = turnlake.connect("data/lake")
    turns = turnlake.frame("turns")
    log = turnlake.read_log("session.v4.jsonl.zstd")

Names are loaded when first used: `import turnlake` alone loads no DuckDB, Polars or PyArrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnlake.api import frame
    from turnlake.connection import connect
    from turnlake.errors import LakeError, ModelError, QueryError, SourceError, TurnlakeError, UsageError
    from turnlake.messages.attempts import project_attempt_request
    from turnlake.messages.closers import closers
    from turnlake.messages.derive import derive_messages
    from turnlake.messages.log import read_log
    from turnlake.messages.messages import normalised_messages
    from turnlake.messages.requests import fold_request_context, fold_request_header
    from turnlake.messages.surface import fold_surface

__version__ = "0.1.0"

__all__ = [
    "LakeError",
    "ModelError",
    "QueryError",
    "SourceError",
    "TurnlakeError",
    "UsageError",
    "__version__",
    "closers",
    "connect",
    "derive_messages",
    "fold_request_context",
    "fold_request_header",
    "fold_surface",
    "frame",
    "normalised_messages",
    "project_attempt_request",
    "read_log",
]

_HOMES = {
    "LakeError": "turnlake.errors",
    "ModelError": "turnlake.errors",
    "QueryError": "turnlake.errors",
    "SourceError": "turnlake.errors",
    "TurnlakeError": "turnlake.errors",
    "UsageError": "turnlake.errors",
    "closers": "turnlake.messages.closers",
    "connect": "turnlake.connection",
    "derive_messages": "turnlake.messages.derive",
    "fold_request_context": "turnlake.messages.requests",
    "fold_request_header": "turnlake.messages.requests",
    "fold_surface": "turnlake.messages.surface",
    "frame": "turnlake.api",
    "normalised_messages": "turnlake.messages.messages",
    "project_attempt_request": "turnlake.messages.attempts",
    "read_log": "turnlake.messages.log",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
