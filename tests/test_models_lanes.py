"""Models made side by side come behind those they read, and one after another where memory is short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Lock

import duckdb
import pytest

from turnlake.errors import ModelError
from turnlake.models.checks import Check, run_checks
from turnlake.models.folder import sql_folder
from turnlake.models.lanes import lane_count, make_in_order, side_by_side
from turnlake.models.model import Model, read_models

MB = 1_000_000


@pytest.fixture
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 2, "memory_limit": "500MB"}) as db:
        yield db


@pytest.fixture
def models(db: duckdb.DuckDBPyConnection) -> list[Model]:
    return read_models(sql_folder(), db)


@pytest.mark.parametrize("count", [1, 2])
def test_each_model_comes_behind_those_it_reads(db: duckdb.DuckDBPyConnection, models: list[Model], count: int) -> None:
    names = {model.name for model in models}
    made: set[str] = set()
    lock = Lock()

    def make(lane: duckdb.DuckDBPyConnection, model: Model) -> None:
        assert lane is not db and model.reads & names <= made
        lane.execute("select 1")
        with lock:
            made.add(model.name)

    with side_by_side(db, count) as lanes:
        make_in_order(lanes, models, make)
    assert made == names


def test_two_are_made_at_once(db: duckdb.DuckDBPyConnection, models: list[Model]) -> None:
    alone = [model for model in models if model.layer == "staging" and not model.reads & {m.name for m in models}][:2]
    both = Barrier(2, timeout=60)
    with side_by_side(db, 2) as lanes:
        make_in_order(lanes, alone, lambda _lane, model: both.wait() and None)
    assert not both.broken and len(alone) == 2


def test_what_one_raises_is_raised_and_nothing_behind_it_is_made(
    db: duckdb.DuckDBPyConnection, models: list[Model]
) -> None:
    made: list[str] = []

    def make(_lane: duckdb.DuckDBPyConnection, model: Model) -> None:
        if model.name == "staging.events":
            raise ModelError("no events")
        made.append(model.name)

    with pytest.raises(ModelError, match="no events"), side_by_side(db, 2) as lanes:
        make_in_order(lanes, models, make)
    assert "marts.turns" not in made


def test_what_most_others_wait_for_goes_first(db: duckdb.DuckDBPyConnection, models: list[Model]) -> None:
    reads = {"a": (), "b": (), "c": ("a",), "d": ("b",), "e": ("d",)}
    named = [replace(models[0], name=name, reads=frozenset(read)) for name, read in reads.items()]
    made: list[str] = []
    with side_by_side(db, 1) as lanes:
        make_in_order(lanes, named, lambda _lane, model: made.append(model.name))
    assert made[0] == "b" and made.index("a") < made.index("e")


@pytest.mark.parametrize(("stored", "count"), [(0, 2), (120 * MB, 2), (130 * MB, 1)])
def test_one_at_a_time_where_memory_is_short(db: duckdb.DuckDBPyConnection, stored: int, count: int) -> None:
    assert lane_count(db, stored) == count


def test_one_thread_one_lane() -> None:
    with duckdb.connect(config={"threads": 1}) as db:
        assert lane_count(db, 0) == 1


def test_lanes_take_the_place_of_threads_of_duckdb(db: duckdb.DuckDBPyConnection) -> None:
    with side_by_side(db, 2) as lanes:
        asked = lanes.start(lambda lane: lane.execute("select current_setting('external_threads')").fetchall())
        assert asked.result() == [(2,)]


def test_the_first_check_that_fails_is_told_whichever_ends_first(db: duckdb.DuckDBPyConnection) -> None:
    path = Path("a.sql")
    checks = [
        Check(path, "slow", "select count(*) from range(3_000_000) as t(n) where hash(n) > 0 having count(*) > 0"),
        Check(path, "quick", "select 1", "t"),
    ]
    with pytest.raises(ModelError, match="check failed: slow"), side_by_side(db, 2) as lanes:
        run_checks(checks, lanes, lambda _lane: None)
