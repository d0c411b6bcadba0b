"""The real harness against a scripted model, with turnlake beside it: `make e2e`, see docs/e2e.md."""

from __future__ import annotations

import pytest

# Here what has to hold is said outside the test functions, and a failure should show both sides all the same.
pytest.register_assert_rewrite("e2e.agreement", "e2e.follower", "e2e.model", "e2e.transcript")
