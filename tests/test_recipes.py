"""docs/recipes.md: twenty questions that any DuckDB shell answers as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import turnlake
from conftest import ROOT
from turnlake.cli import main
from turnlake.recipes import RECIPE, answer, answered

PAGE = (ROOT / "docs" / "recipes.md").read_text("utf-8")
QUERIES = [found[2] for found in RECIPE.finditer(PAGE)]
QUESTIONS = re.findall(r"^### (\d+)\. (.+)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, built."""
    folder = tmp_path_factory.mktemp("recipes") / "lake"
    assert main(["build", str(sample), "--lake", str(folder), "--workers", "1", "--quiet"]) == 0
    return folder


def test_there_are_twenty_questions_each_with_a_query_and_its_answer() -> None:
    assert [number for number, _ in QUESTIONS] == [str(number) for number in range(1, 21)]
    assert all(question.endswith("?") for _, question in QUESTIONS)
    assert len(QUERIES) == PAGE.count("```text\n") == 20


def test_a_duckdb_shell_gives_the_answers_of_the_page(lake: Path) -> None:
    assert answered(PAGE, lake / "turnlake.duckdb") == PAGE, "run make docs"


@pytest.mark.parametrize("query", QUERIES, ids=[question for _, question in QUESTIONS])
def test_an_answer_depends_on_the_lake_alone(query: str, lake: Path) -> None:
    with duckdb.connect() as shell, turnlake.connect(lake) as db:
        shell.execute("set TimeZone = 'America/New_York'")
        shell.execute(f"attach '{lake / 'turnlake.duckdb'}' as other (read_only)")
        shell.execute("use other")
        shown = answer(shell, query)
        assert f"```sql\n{query}\n```\n\n```text\n{shown}```\n" in PAGE
        assert answer(db, query) == shown
        assert shown.count("\n") > 1, "an answer without rows shows nothing"


def test_an_answer_that_was_there_is_replaced(lake: Path) -> None:
    page = "A\n\n```sql\nselect 1 as one\n```\n\nB\n\n```sql\nselect 2 as two\n```\n\n```text\nold\n```\n\nC\n"
    once = answered(page, lake / "turnlake.duckdb")
    assert re.findall(r"```text\n(.*?)```", once, re.DOTALL) == ["one\n  1\n", "two\n  2\n"]
    assert answered(once, lake / "turnlake.duckdb") == once
    assert [found for found in "ABC" if f"{found}\n" not in once] == []
