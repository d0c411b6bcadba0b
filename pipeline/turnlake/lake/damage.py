"""Files of a state that are gone or not as they were written, and whose rows they held.

A state's files never change once it is committed, so whatever differs was done to them by a disk or by hand. Sizes
are compared by every build, contents by each that goes on from the state: a rotten part is read by nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path

from turnlake.errors import LakeError
from turnlake.lake.checkpoints import Known
from turnlake.lake.parts import Part
from turnlake.lake.state import State

# Parts that hold rows of any log; all others are named by the logs whose rows they hold.
SHARED_PARTS = frozenset({"logs.parquet", "tail.parquet"})


def damaged_parts(state: State, *, by_content: bool) -> frozenset[Part]:
    """The files of a state that are gone or have another size or, by_content, another SHA-256.

    LakeError where its manifest can't be read.
    """
    return frozenset(
        part for part in state.parts() if _is_damaged(part, state.path / part.table / part.name, by_content)
    )


def _is_damaged(part: Part, path: Path, by_content: bool) -> bool:
    try:
        if not path.is_file() or path.stat().st_size != part.bytes:
            return True
        if not by_content:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() != part.sha256
    except OSError:
        return True  # a sector that can't be read


def logs_in(damaged: Collection[Part], logs: Mapping[str, Known]) -> frozenset[str]:
    """The log_ids whose stored rows can't be trusted any more, as these files are damaged."""
    names = {part.name for part in damaged}
    if names & SHARED_PARTS:
        return frozenset(logs)
    return frozenset(log_id for log_id, known in logs.items() if not names.isdisjoint(known.parts))


def require_whole(state: State) -> None:
    """LakeError where a file of the state is damaged: nothing may be built from it."""
    if damaged := damaged_parts(state, by_content=True):
        raise LakeError(f"{named(damaged)} not as written: a file of {state.path}. Run `turnlake build --full`.")


def named(damaged: Collection[Part]) -> str:
    """The files in words, the first three by name."""
    names = sorted(f"{part.table}/{part.name}" for part in damaged)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} {'is' if len(names) == 1 else 'are'}"
