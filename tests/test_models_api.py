from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest

import turnlake
from conftest import Run
from lakes import committed, filled, of_turns
from turnlake import api
from turnlake.errors import LakeError, ModelError, QueryError
from turnlake.rows.tables import LAKE_FORMAT


@pytest.fixture
def own_lake(tmp_path: Path) -> Path:
    """A lake to change."""
    return filled(tmp_path / "a lake's", 1, 2)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same to read, for all tests here."""
    return filled(tmp_path_factory.mktemp("api") / "a lake's", 1, 2)


def test_connect_has_the_schemas_without_a_database_in_front(lake: Path) -> None:
    with turnlake.connect(lake) as db:
        assert db.execute("select count(*) from marts.turns").fetchone() == (2,)
        assert db.execute("select count(*) from raw.events").fetchone() == (10,)
        schemas = db.execute("select distinct table_schema from information_schema.tables order by 1").fetchall()
        assert schemas == [("intermediate",), ("marts",), ("raw",), ("staging",)]


def test_a_connection_of_one_state_keeps_it_and_a_new_one_has_the_next(own_lake: Path) -> None:
    with api.connect(own_lake) as before:
        filled(own_lake, 1, 2, 3)
        filled(own_lake, 1, 2, 3, 4)
        with api.connect(own_lake) as after:
            assert before.execute("select count(*) from marts.turns").fetchone() == (2,)
            assert before.execute("select count(*) from raw.events").fetchone() == (10,)
            assert after.execute("select count(*) from marts.turns").fetchone() == (4,)


@pytest.mark.parametrize(
    "statement",
    [
        "create table turnlake.marts.x as select 1",
        "copy (select 1) to '{outside}/x.csv'",
        "select * from read_text('{outside}/secret')",
        "attach '{outside}/x.duckdb' as x",
        "set enable_external_access = true",
    ],
)
def test_a_connection_neither_writes_nor_leaves_the_lake(lake: Path, tmp_path: Path, statement: str) -> None:
    (tmp_path / "secret").write_text("s", encoding="utf-8")
    with api.connect(lake) as db, pytest.raises(duckdb.Error):
        db.execute(statement.format(outside=tmp_path))


def test_no_lake_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="turnlake build"):
        turnlake.connect(tmp_path / "none")
    committed(tmp_path / "bare", of_turns())
    with pytest.raises(LakeError, match=r"holds no turnlake\.duckdb: run `turnlake build"):
        turnlake.connect(tmp_path / "bare")


def test_a_newer_lake_is_refused(own_lake: Path) -> None:
    (own_lake / "format").write_text(str(LAKE_FORMAT + 1), encoding="ascii")
    with pytest.raises(LakeError, match=f"format {LAKE_FORMAT + 1}"):
        turnlake.connect(own_lake)


def test_a_moved_lake_says_what_to_run(own_lake: Path, tmp_path: Path) -> None:
    moved = own_lake.rename(tmp_path / "moved")
    with pytest.raises(LakeError, match="it was moved or copied: run `turnlake model"):
        turnlake.connect(moved)


def test_a_lake_may_be_reached_by_a_link(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(lake)
    with turnlake.connect(tmp_path / "link") as db:
        assert db.execute("select count(*) from raw.events").fetchone() == (10,)


def test_frame_is_a_polars_frame_of_a_mart(lake: Path) -> None:
    frame = turnlake.frame("turns", lake=lake)
    assert frame["turn"].to_list() == [1, 2]
    assert str(frame.schema["input_tokens"]) == "Int64"
    with pytest.raises(QueryError, match="did you mean turns"):
        turnlake.frame("turn", lake=lake)
    with pytest.raises(QueryError, match="there is no table marts"):
        turnlake.frame('turns" union from raw.logs --', lake=lake)


def test_a_failed_build_keeps_what_was_published(own_lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise ModelError("check failed")

    monkeypatch.setattr("turnlake.models.build.run_checks_of_few", refuse)
    with pytest.raises(ModelError):
        filled(own_lake, 1, 2, 3)
    assert turnlake.frame("turns", lake=own_lake).height == 2
    assert not list(own_lake.glob(".build-*"))


def test_model_builds_and_publishes(turnlake: Run, tmp_path: Path) -> None:
    committed(tmp_path / "lake", of_turns(1))
    done = turnlake("model", "--lake", "lake", "--memory", "300MB", "--threads", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"]["marts.turns"] == 1
    shown = turnlake("model", "--lake", "lake")
    assert ["marts.turns", "1"] in [line.split() for line in shown.stdout.splitlines()]


@pytest.mark.parametrize(
    "words", [["model"], ["model", "--threads", "0"], ["model", "--memory", "lots"], ["sql"], ["sql", "select 1"]]
)
def test_wrong_usage_exits_2_with_one_line(turnlake: Run, words: list[str]) -> None:
    done = turnlake(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


QUERY = """
    select turn, state, is_dangling, ended_at, cache_read_tokens, 0.5::decimal(3, 2) as money
    from marts.turns
    order by turn
"""


def test_sql_prints_aligned_text_csv_or_json(turnlake: Run, lake: Path) -> None:
    lines = turnlake("sql", QUERY, "--lake", str(lake)).stdout.splitlines()
    assert lines[0].split()[:3] == ["turn", "state", "is_dangling"]
    assert lines[1].split()[:3] == ["1", "completed", "no"]
    header, first, _ = csv.reader(turnlake("sql", QUERY, "--csv", "--lake", str(lake)).stdout.splitlines())
    assert header[0] == "turn" and first[4:] == ["", "0.50"]
    first, second = json.loads(turnlake("sql", QUERY, "--json", "--lake", str(lake)).stdout)
    assert (first["turn"], first["cache_read_tokens"], first["money"], second["turn"]) == (1, None, "0.50", 2)
    assert first["ended_at"].startswith("2026-08-25 12:00:06")
    assert turnlake("sql", "select 1 where false", "--json", "--lake", str(lake)).stdout == "[]\n"


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to '{lake}/x.csv'",
        "create table x as select 1",
        "select 1; select 2",
        "select from where",
        "select missing from marts.turns",
        "select 'x'::int",
        "select * from read_text('/etc/hostname')",
        "",
    ],
)
def test_sql_refuses_what_is_not_one_read_only_query(turnlake: Run, lake: Path, query: str) -> None:
    done = turnlake("sql", query.format(lake=lake), "--lake", str(lake))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert not (lake / "x.csv").exists()


def test_sql_refuses_json_that_would_lose_a_column(turnlake: Run, lake: Path) -> None:
    done = turnlake("sql", "select 1 as a, 2 as a", "--json", "--lake", str(lake))
    assert done.returncode == 2 and "two columns are named a" in done.stderr


def test_sql_shows_hostile_text_harmlessly(turnlake: Run, lake: Path) -> None:
    done = turnlake("sql", "select chr(27) || '[31m[bold]' as x", "--lake", str(lake))
    assert done.stdout.splitlines()[1] == r"\x1b[31m[bold]"


def test_sql_without_a_query_prints_a_script_that_runs(turnlake: Run, lake: Path) -> None:
    script = turnlake("sql", "--lake", str(lake)).stdout
    with duckdb.connect() as db:
        db.execute(script)
        assert db.execute("select count(*) from marts.turns").fetchone() == (2,)
