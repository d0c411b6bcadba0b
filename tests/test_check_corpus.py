"""The official logs: what their tables say is what they give."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from checked import fill
from conftest import ROOT
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


def test_the_groups_are_those_of_the_page(checks: dict[str, Check], official: Official) -> None:
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8").partition("## Over the official logs")[2]
    rows = re.findall(r"^\| (.*?) \| (\d+) \| (.*?) \|", page.partition("\n## ")[0], re.MULTILINE)
    told = {(group.strip("`"), status): int(count) for group, count, status in rows}
    counts = Counter(_group(official, name, checks) for name in official.logs)
    assert counts == told
    assert sum(told.values()) == len(official.cases) == int(re.findall(r"\d+", page)[0])


def _group(official: Official, name: str, checks: dict[str, Check]) -> tuple[str, str]:
    """The group of a log as the page names it, and the status of its check."""
    log, status = official.logs[name], checks[name].status if name in checks else "no session"
    if log["verdict"] == "refused":
        is_empty = log["decoded_bytes"] == 0
        return log["verdict_reason"] + ("`, empty file" if is_empty else ""), status
    ends = {"removable_tail": "tail removed"}.get(log["verdict"], "torn" if log["is_torn"] else "whole")
    return f"accepted, {ends}", status
