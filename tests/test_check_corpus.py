"""The official logs: what their tables say is what they give."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from checked import fill
from official import Official
from turnlake.check.database import written
from turnlake.check.outcome import Check


@pytest.fixture(scope="module")
def checks(official: Official, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """The checks of all logs, by case."""
    copy = tmp_path_factory.mktemp("checked") / "x.duckdb"
    shutil.copy(official.parts / "x.duckdb", copy)
    with written(Path(copy)) as db:
        return {check.session_id: check for check in fill(db)}


def test_nothing_differs_in_any_log(checks: dict[str, Check]) -> None:
    assert len(checks) > 440
    assert {name: check.reason for name, check in checks.items() if check.is_equal is not True} == {}
    assert sum(check.checkpoint_count or 0 for check in checks.values()) > 1300


def test_accepted_logs_are_exact_and_break_nothing(checks: dict[str, Check], official: Official) -> None:
    accepted = [check for name, check in checks.items() if name in official.accepted]
    statuses = Counter(check.status for check in accepted)
    assert statuses["match"] > 390
    assert {check.reason for check in accepted if check.status != "match"} <= {"image_offload", "replacement"}
    assert [check.session_id for check in accepted if check.error_count] == []


def test_what_is_not_exact_says_why(checks: dict[str, Check]) -> None:
    inexact = [check for check in checks.values() if check.status == "not_exact"]
    assert inexact
    assert all(check.reason for check in inexact)
