"""The plan of a sample: which session springs from which, and how many bytes each may hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

# Of the sessions that start from nothing, one in so many calls a subagent, is forked, ends in an open turn.
CHILD_EVERY = 9
FORK_EVERY = 16
DANGLING_EVERY = 18
MEAN_WEIGHT = 3.0


@dataclass(frozen=True)
class Plan:
    """One session that starts from nothing, with the sessions that spring from it."""

    number: int
    weight: float
    child_weight: float = 0.0
    fork_weight: float = 0.0
    is_dangling: bool = False

    @property
    def all_weights(self) -> float:
        """The weights of all its sessions together."""
        return self.weight + self.child_weight + self.fork_weight


def plan_sessions(sessions: int, rng: Random) -> Iterator[Plan]:
    """Plans of `sessions` sessions in all; weights are heavy-tailed, the largest 7 times their mean."""
    left = sessions
    for number in count():
        if left < 1:
            return
        has_child = left > 1 and number % CHILD_EVERY == 1
        has_fork = left > 1 + has_child and number % FORK_EVERY == 2
        yield Plan(
            number, _weight(rng), MEAN_WEIGHT / 4 * has_child, MEAN_WEIGHT * has_fork, number % DANGLING_EVERY == 3
        )
        left -= 1 + has_child + has_fork


def _weight(rng: Random) -> float:
    return 1 / (0.045 + rng.random())


class Budget:
    """Shares `total` bytes out by weight. What one session left or overdrew, the next ones gain or lose."""

    def __init__(self, total: int, weights: float) -> None:
        self._bytes = total
        self._weights = weights

    def take(self, weight: float) -> int:
        """The bytes of a session of this weight."""
        share = int(self._bytes * min(1.0, weight / self._weights))
        self._bytes -= share
        self._weights = max(self._weights - weight, 1e-9)
        return max(share, 0)

    def settle(self, share: int, used: int) -> None:
        """A session that was given `share` has used `used`."""
        self._bytes += share - used
