"""`python -m fuzz [TARGET …] [--minutes 10] [--seed 1]` in the folder tests: looks for inputs that break a property."""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from hypothesis import HealthCheck, given, seed, settings

from fuzz.targets import TARGETS, Target

# Examples that a seed stands for; a build takes a thousand times as long as the rest.
ROUND, SLOW_ROUND = 500, 20


def run(target: Target, number: int, count: int) -> None:
    """So many examples of a seed. Raises what the check raises for the smallest that fails."""
    options = settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    seed(number)(options(given(target.inputs)(target.check)))()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--minutes", type=float, default=10, help="how long for each (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    args = parser.parse_args()
    for name in args.targets or TARGETS:
        end = time.monotonic() + 60 * args.minutes
        for number in itertools.count(args.seed):
            if time.monotonic() >= end:
                break
            print(f"{name}: seed {number}", file=sys.stderr, flush=True)
            run(TARGETS[name], number, SLOW_ROUND if name == "build" else ROUND)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
