"""The Parquet files of one state of the lake, as the models see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class RawFiles:
    """The files that make up the raw tables of one state.

    `tables` maps the name of each raw table (logs, events, chunk_runs, findings) to the absolute paths of its
    Parquet files, in order; each has at least one, perhaps without rows. `loads` is the lake's `loads.jsonl`,
    None or absent before the first run that wrote one.
    """

    tables: Mapping[str, tuple[Path, ...]]
    loads: Path | None = None
