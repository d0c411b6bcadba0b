"""`turnlake.connect()`: it follows the builds, and takes nothing that reads or writes outside the lake."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest

import turnlake
from lakes import filled
from turnlake.errors import LakeError, QueryError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TURNS = "select count(*) from marts.turns"
EVENTS = "select count(*) from raw.events"


@pytest.fixture
def own_lake(tmp_path: Path) -> Path:
    """A lake to change: a session of two turns, ten events."""
    return filled(tmp_path / "a lake's", 1, 2)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same to read."""
    return filled(tmp_path_factory.mktemp("connection") / "lake", 1, 2)


def turns(db: DuckDBPyConnection) -> int:
    """The turns the connection sees."""
    ((count,),) = db.execute(TURNS).fetchall()
    assert isinstance(count, int)
    return count


def test_it_sees_each_state_published(own_lake: Path) -> None:
    with turnlake.connect(own_lake) as db:
        lazy = db.sql(TURNS)
        assert (turns(db), lazy.fetchall()) == (2, [(2,)])
        for last in (3, 4, 5, 6):
            filled(own_lake, *range(1, last + 1))
            assert turns(db) == last
            assert db.sql(EVENTS).fetchall() == [(5 * last,)]
            assert db.table("marts.turns").count("*").fetchall() == [(last,)]
            assert lazy.fetchall() == [(last,)]


def test_a_result_that_is_being_fetched_keeps_its_state(own_lake: Path) -> None:
    with turnlake.connect(own_lake) as db, db.cursor() as other:
        open_result = db.execute("select turn from marts.turns cross join range(100000) order by all")
        seen = open_result.fetchmany(1)
        filled(own_lake, 1, 2, 3)
        assert turns(other) == 3
        while rows := open_result.fetchmany(50_000):
            seen += rows
        assert len(seen) == 200_000 and seen[-1] == (2,)
        assert turns(db) == 3


def test_a_transaction_sees_one_state(own_lake: Path) -> None:
    with turnlake.connect(own_lake) as db:
        db.begin()
        assert turns(db) == 2
        filled(own_lake, 1, 2, 3)
        assert turns(db) == 2
        db.commit()
        assert turns(db) == 3


def test_it_can_be_told_to_stay(own_lake: Path) -> None:
    with turnlake.connect(own_lake, follow=False) as db:
        filled(own_lake, 1, 2, 3)
        assert turns(db) == 2


def test_what_the_user_made_stays(own_lake: Path) -> None:
    with turnlake.connect(own_lake) as db:
        db.execute("create temp table mine as select 1 as turn")
        db.register("frame", pl.DataFrame({"turn": [1, 3]}))
        filled(own_lake, 1, 2, 3)
        assert db.sql("select turn from marts.turns semi join frame using (turn)").pl()["turn"].to_list() == [1, 3]
        assert db.sql("from mine").fetchall() == [(1,)]


def test_a_lake_that_is_gone_is_an_error_not_old_numbers(own_lake: Path) -> None:
    with turnlake.connect(own_lake) as db:
        shutil.rmtree(own_lake)
        with pytest.raises(LakeError, match="any more: run `turnlake build"):
            db.sql(TURNS)


def test_polars_reads_from_it(lake: Path) -> None:
    with turnlake.connect(lake) as db:
        assert pl.read_database(TURNS, db).item() == 2
        assert db.execute(TURNS, []).fetchall() == [(2,)]
        assert "sql" in dir(db)


def test_a_query_that_fails_says_what_duckdb_says(lake: Path) -> None:
    with turnlake.connect(lake) as db:
        with pytest.raises(duckdb.ParserException):
            db.sql("select from where")
        with pytest.raises(duckdb.CatalogException, match="nonsense"):
            db.sql("from nonsense")


# Each of them says {outside} or {inside}; none may leave a trace in either, or tell the secret.
HOSTILE = [
    "select * from read_text('{outside}/secret')",
    "select * from read_csv('{outside}/secret', header = false)",
    "select * from read_text('{inside}/../secret')",
    "from '{outside}/secret'",
    "select * from glob('{outside}/*')",
    "copy (select 1) to '{outside}/new.csv'",
    "copy (select 1) to '{inside}/new.csv'",
    "copy (select 1 as a) to '{inside}/events/new.parquet'",
    "select 1; copy (select 1) to '{inside}/new.csv'",
    "/* harmless */ explain analyze copy (select 1) to '{inside}/new.csv'",
    "prepare p as copy (select 1) to '{inside}/new.csv'; execute p",
    "export database '{inside}/new'",
    "export database '{outside}/new'",
    "attach '{inside}/new.duckdb' as other",
    "attach '{outside}/new.duckdb' as other",
    "use memory; detach turnlake",
    "create table marts.new as select 1",
    "delete from marts.turns",
    "install httpfs",
    "load httpfs",
    "select * from read_parquet('https://example.com/x.parquet')",
    "create secret (type s3)",
    "select getenv('HOME')",
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "reset lock_configuration",
    "set lock_configuration = false",
    "pragma enable_profiling",
    "set profiling_output = '{outside}/new'",
    "call enable_logging(storage = 'file', storage_path = '{outside}/new')",
    "from query('copy (select 1) to ''{inside}/new.csv''')",
]


@pytest.mark.parametrize("ask", ["execute", "sql", "query"])
@pytest.mark.parametrize("query", HOSTILE)
def test_no_query_leaves_the_lake_or_writes(lake: Path, tmp_path: Path, query: str, ask: str) -> None:
    (tmp_path / "secret").write_text("s", encoding="utf-8")
    (lake.parent / "secret").write_text("s", encoding="utf-8")
    before = sorted(lake.rglob("*"))
    with turnlake.connect(lake) as db, pytest.raises((duckdb.Error, QueryError)):
        getattr(db, ask)(query.format(outside=tmp_path, inside=lake))
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert sorted(lake.rglob("*")) == before


def test_python_ways_out_are_closed_too(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s", encoding="utf-8")
    with turnlake.connect(lake) as db:
        with pytest.raises(duckdb.PermissionException):
            db.read_csv(str(tmp_path / "secret")).fetchall()
        with pytest.raises(duckdb.PermissionException):
            db.sql("select 1").write_csv(str(tmp_path / "new.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_what_only_reads_is_taken(lake: Path) -> None:
    with turnlake.connect(lake) as db:
        for query in (
            "explain from marts.turns",
            "describe marts.turns",
            "set variable x = 1",
            "summarize marts.turns",
        ):
            db.execute(query).fetchall()


def test_the_nearest_lake_is_found(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNLAKE_LAKE", raising=False)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    with pytest.raises(LakeError, match=r"there is no lake at .*deep.er.data.lake"):
        turnlake.connect()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lake").symlink_to(lake)
    assert turnlake.frame("turns").height == 2
    monkeypatch.setenv("TURNLAKE_LAKE", str(tmp_path / "other"))
    with pytest.raises(LakeError, match="other"):
        turnlake.connect()
