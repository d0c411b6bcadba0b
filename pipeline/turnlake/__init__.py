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
    from turnlake.api import connect, frame
    from turnlake.errors import LakeError, ModelError, QueryError, SourceError, TurnlakeError, UsageError
    from turnlake.events.reader import read_log

__version__ = "0.1.0"

__all__ = [
    "LakeError",
    "ModelError",
    "QueryError",
    "SourceError",
    "TurnlakeError",
    "UsageError",
    "__version__",
    "connect",
    "frame",
    "read_log",
]

_HOMES = {
    "LakeError": "turnlake.errors",
    "ModelError": "turnlake.errors",
    "QueryError": "turnlake.errors",
    "SourceError": "turnlake.errors",
    "TurnlakeError": "turnlake.errors",
    "UsageError": "turnlake.errors",
    "connect": "turnlake.api",
    "frame": "turnlake.api",
    "read_log": "turnlake.events.reader",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
