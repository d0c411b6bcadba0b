"""A short look at each fuzz target; `make fuzz` looks for minutes."""

from __future__ import annotations

import pytest
from hypothesis import settings

from fuzz.__main__ import run
from fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_breaks(name: str) -> None:
    run(TARGETS[name], 1, 2 if name == "build" else settings().max_examples)
