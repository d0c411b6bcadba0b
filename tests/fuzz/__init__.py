"""Properties that hold for any bytes: see targets.py; tests/test_fuzz.py looks at some, `make fuzz` for minutes."""

from __future__ import annotations
