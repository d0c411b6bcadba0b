"""docs/counting.md shows what happens, and what it says of sums and types holds for every column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from conftest import ROOT
from turnlake.api import connect
from turnlake.cli import main

SHOWN = re.compile(r"^```sql\n(.*?)^```\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = SHOWN.findall((ROOT / "docs" / "counting.md").read_text(encoding="utf-8"))
TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "total_tokens",
)
SUMMED = (*TOKENS, "cost", "unknown_usage_attempt_count", "unpriced_attempt_count")
# Quotients, told as such by their names.
RATIO = re.compile(r"_ratio$|_per_second$|^share$")
# Of each call: what the roll-ups sum, the lacks among it.
CALLS = """
select *, (total_tokens is null)::bigint as unknown_usage_attempt_count,
    coalesce(price_source = 'unpriced', false)::bigint as unpriced_attempt_count
from marts.attempts
"""


@pytest.fixture(scope="module")
def lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, built."""
    folder = tmp_path_factory.mktemp("counting")
    assert main(["build", str(sample), "--lake", str(folder), "--workers", "1", "--json", "-q"]) == 0
    return folder


@pytest.fixture(scope="module")
def db(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to it."""
    with connect(lake) as db:
        yield db


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) > 12


@pytest.mark.parametrize(("query", "shown"), EXAMPLES)
def test_an_example_shows_what_happens(query: str, shown: str, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["sql", "--lake", str(lake), query]) == 0
    assert capsys.readouterr().out == shown


def total(db: duckdb.DuckDBPyConnection, column: str, table: str, condition: str = "true") -> object:
    """The sum of a column, 0 where no row has a value."""
    [[value]] = db.execute(f"select coalesce(sum({column}), 0) from ({table}) where {condition}").fetchall()
    return value


@pytest.mark.parametrize("column", SUMMED)
def test_all_ways_to_add_up_give_one_total(db: duckdb.DuckDBPyConnection, column: str) -> None:
    calls = total(db, column, CALLS)
    assert total(db, column, "from marts.usage_daily") == calls
    assert total(db, column, "from marts.sessions") == calls
    assert total(db, f"tree_{column}", "from marts.sessions", "session_id = root_session_id") == calls
    in_turns = total(db, column, "from marts.turns")
    assert in_turns + total(db, column, CALLS, "turn is null") == calls
    assert (
        total(db, column, "from marts.steps") + total(db, column, CALLS, "step is null and turn is not null")
        == in_turns
    )


@pytest.mark.parametrize("column", SUMMED)
def test_a_tree_sums_its_subagents(db: duckdb.DuckDBPyConnection, column: str) -> None:
    query = f"""
    with recursive members as (
        select session_id as top, session_id from marts.sessions
        union
        select m.top, s.session_id from members as m
        inner join marts.sessions as s on s.parent_session_id = m.session_id and s.origin = 'subagent'
    ), sums as (
        select top, sum({column}) as tree_sum, count(*) as members
        from members inner join marts.sessions using (session_id) group by top
    )
    select s.session_id, s.tree_{column}, t.tree_sum, s.tree_session_count, t.members
    from marts.sessions as s inner join sums as t on s.session_id = t.top
    where s.tree_{column} is distinct from t.tree_sum or s.tree_session_count <> t.members
    """
    assert db.execute(query).fetchall() == []


@pytest.mark.parametrize("count", ["attempt_count", "step_count", "tool_call_count"])
def test_counts_of_a_session_are_those_of_its_turns(db: duckdb.DuckDBPyConnection, count: str) -> None:
    outside = total(db, "1", CALLS, "turn is null") if count == "attempt_count" else 0
    assert total(db, count, "from marts.sessions") == total(db, count, "from marts.turns") + outside


def test_numbers_have_the_types_they_are_meant_to_have(db: duckdb.DuckDBPyConnection) -> None:
    query = """
    select table_name, column_name, data_type from duckdb_columns()
    where schema_name = 'marts' and database_name = current_database()
    """
    columns = db.execute(query).fetchall()
    assert columns
    for table, column, kind in columns:
        place = f"{table}.{column}"
        assert "HUGEINT" not in kind, place
        assert (kind in ("DOUBLE", "FLOAT")) <= bool(RATIO.search(column)), place
        if column.endswith(("_tokens", "_count", "_ms")) and not column.startswith("is_"):
            assert kind == "BIGINT", f"{place} is {kind}"
        if column.endswith("_at"):
            assert kind == "TIMESTAMP WITH TIME ZONE", f"{place} is {kind}"
        if re.search(r"(^|_)cost$", column):
            assert kind == "DECIMAL(38,12)", f"{place} is {kind}"


def test_rows_of_an_empty_lake_have_the_same_types(db: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    lake = tmp_path / "lake"
    main(["build", str(tmp_path / "root"), "--lake", str(lake), "--workers", "1", "--json", "-q"])
    query = "select table_name, column_name, data_type from duckdb_columns() where schema_name = 'marts' order by all"
    with connect(lake) as empty:
        assert empty.execute(query).fetchall() == db.execute(query).fetchall()
