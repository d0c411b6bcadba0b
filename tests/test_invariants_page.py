"""docs/invariants.md knows every statement, every code that tells of one, and how grave it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnlake.findings import CODES, INVARIANTS

PAGE = Path(__file__).parents[1] / "docs" / "invariants.md"
SPEC = Path(__file__).parents[2] / "shared" / "spec" / "session-format.md"
# Codes that also tell of other things, so that their findings belong to no statement.
OF_SEVERAL = {"bad_record", "corrupt_middle", "unread_line"}


def table() -> dict[str, tuple[str, str]]:
    """Severity and codes by statement."""
    lines = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| INV-")]
    return {line[0].removeprefix("| "): (line[3], line[4]) for line in lines}


def codes_of(statement: str) -> list[str]:
    return re.findall(r"`([^`]+)`", table()[statement][1])


def test_each_statement_has_a_row() -> None:
    assert list(table()) == [f"INV-{number:02}" for number in range(1, 51)]


def test_the_spec_has_the_same() -> None:
    if not SPEC.is_file():
        pytest.skip("the description of the formats is not beside this checkout")
    assert set(re.findall(r"^\| (INV-\d\d) \|", SPEC.read_text("utf-8"), re.MULTILINE)) == table().keys()


def test_the_codes_are_those_of_the_list() -> None:
    named = {(code, statement) for statement in table() for code in codes_of(statement)}
    assert {code for code, _ in named} <= CODES.keys()
    assert set(INVARIANTS.items()) <= named
    # INV-26 is told by INV-04 where its chunks are events.
    assert {pair for pair in named if pair[0] not in OF_SEVERAL} - set(INVARIANTS.items()) == {("INV-04", "INV-26")}


def test_only_what_no_log_can_tell_has_no_code() -> None:
    assert [statement for statement in table() if not codes_of(statement)] == ["INV-48"]


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("INV-")])
def test_the_severity_is_that_of_the_list(code: str) -> None:
    assert CODES[code].severity in table()[code][0]


def test_each_code_tells_of_a_statement_there_is() -> None:
    assert set(INVARIANTS.values()) == table().keys() - {"INV-28", "INV-48"}
