"""Writes a sample: a sessions root of synthetic sessions, of a given number, size and format version."""

from __future__ import annotations

from pathlib import Path
from random import Random

from turnlake.errors import UsageError
from turnlake.sample.family import Family, Sample, SampleSummary
from turnlake.sample.plan import Budget, plan_sessions
from turnlake.sample.shapes import NEWEST
from turnlake.sample.turns import Deck
from turnlake.sample.words import build_vocabulary

MEGABYTE = 1_000_000
# A session can't say much in less.
SMALLEST_SESSION = 10_000


def write_sample(
    directory: Path, *, sessions: int, megabytes: float, version: int, seed: int, raw: bool = False
) -> SampleSummary:
    """Write `sessions` sessions of `megabytes` (10^6 bytes) of decoded lines in all into an empty or new directory.

    Equal options give equal lines. Raises UsageError for options that can't be met.
    """
    _check(directory, sessions, megabytes, version)
    directory.mkdir(parents=True, exist_ok=True)
    # Texts as seeds are hashed the same way on every machine.
    plans = list(plan_sessions(sessions, Random(f"turnlake sample plan {seed}")))
    budget = Budget(int(megabytes * MEGABYTE), sum(plan.all_weights for plan in plans))
    deck = Deck(Random(f"turnlake sample turns {seed}"))
    sample = Sample(directory, version, raw, build_vocabulary(seed), budget, deck, SampleSummary())
    for plan in plans:
        Family(sample, plan, Random(f"turnlake sample session {seed} {plan.number}")).write()
    return sample.summary


def _check(directory: Path, sessions: int, megabytes: float, version: int) -> None:
    if version not in range(NEWEST + 1):
        raise UsageError(f"there is no format version {version}; choose one of 0 to {NEWEST}")
    if sessions < 1:
        raise UsageError("a sample needs at least one session")
    if megabytes * MEGABYTE < sessions * SMALLEST_SESSION:
        need = sessions * SMALLEST_SESSION / MEGABYTE
        raise UsageError(f"{sessions} sessions need at least {need:g} MB; ask for more megabytes or fewer sessions")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is not an empty directory; name a new one, or empty it first")
