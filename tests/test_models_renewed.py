"""A database that is renewed for few sessions holds the rows and comments of one built anew, after any history."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from lakes import opened
from logs import Session, file_name
from test_incremental import HISTORIES, History, build, current, log, pool, whys
from turnlake.check.share import fill_database
from turnlake.cli import main
from turnlake.errors import ModelError
from turnlake.lake.state import Lake, State
from turnlake.models import changes, renew
from turnlake.models.build import BuildResult, Limits, build_database, connected, in_use
from turnlake.models.changes import Change, change_between
from turnlake.models.folder import sql_folder
from turnlake.models.model import read_models

Rows = dict[str, list[str]]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str] | None]:
    """For each build that tried to renew a database the sessions it renewed; None where it gave up."""
    tries: list[frozenset[str] | None] = []
    really = renew.renew_database

    def spied(*words: Any, **options: Any) -> BuildResult | None:
        result = really(*words, **options)
        tries.append(result.renewed if result else None)
        return result

    monkeypatch.setattr(renew, "renew_database", spied)
    return tries


def everything(database: Path) -> Rows:
    """The rows of each table in one order, and what the catalog says of tables, views and columns."""
    with opened(database) as db:
        tables = db.execute("select schema_name || '.' || table_name from duckdb_tables() order by 1").fetchall()
        rows = {name: sorted(map(repr, db.execute(f"from {name}").fetchall())) for (name,) in tables}
        columns = "schema_name, table_name, column_name, data_type, comment from duckdb_columns() where not internal"
        # DuckDB tells the columns of an `exclude` in any order.
        words = "list_sort(regexp_extract_all(sql, '\\w+'))"
        views = f"schema_name, view_name, comment, {words} from duckdb_views() where not internal"
        said = {what: sorted(map(repr, db.execute(f"select {what}").fetchall())) for what in (columns, views)}
    return rows | said


def differences(ours: Rows, fresh: Rows) -> dict[str, tuple[list[str], list[str]]]:
    """By table the rows that only one of two databases has."""
    names = [name for name in sorted(ours.keys() | fresh.keys()) if ours.get(name) != fresh.get(name)]
    rows = {name: (set(ours.get(name, ())), set(fresh.get(name, ()))) for name in names}
    return {name: (sorted(mine - theirs), sorted(theirs - mine)) for name, (mine, theirs) in rows.items()}


def assert_as_anew(lake: Path) -> None:
    """The published database is the one that its state would give now, built from nothing."""
    anew = lake.with_name("anew")
    shutil.rmtree(anew, ignore_errors=True)
    shutil.copytree(lake, anew)
    assert main(["model", "--lake", str(anew), "-q"]) == 0
    state = Lake(anew).published_state()
    assert state is not None
    fill_database(Lake(anew).database, state, 1)
    assert differences(everything(Lake(lake).database), everything(Lake(anew).database)) == {}


def some_logs(root: Path, count: int = 8) -> None:
    """So many sessions, each in a log of its own."""
    for number in range(count):
        name = f"s{number}"
        log(root, Session(4, id=name).turn().turn_with_call().raw, session=name)


def grow(root: Path, name: str) -> None:
    """Let a session go on."""
    log(root, Session(4, id=name).turn().turn_with_call().turn().raw, session=name)


# Which sessions are renewed.


def test_a_session_that_grew_is_renewed_alone(root: Path, lake: Path, renewals: list[frozenset[str] | None]) -> None:
    some_logs(root)
    build(lake, root)
    assert renewals == []
    grow(root, "s3")
    build(lake, root)
    log(root, Session(4, id="new").turn().raw, session="new")
    build(lake, root)
    assert renewals == [{"s3"}, {"new"}]
    assert_as_anew(lake)


def test_what_goes_is_renewed_too(root: Path, lake: Path, renewals: list[frozenset[str] | None]) -> None:
    some_logs(root)
    build(lake, root)
    (root / "--w--" / "s5" / "session.v4.jsonl").unlink()
    build(lake, root)
    build(lake, root, "--purge-missing")
    assert renewals[0] == {"s5"}
    assert_as_anew(lake)


def test_a_newer_generation_takes_the_place_of_its_session(
    root: Path, lake: Path, renewals: list[frozenset[str] | None]
) -> None:
    for number in range(8):
        log(root, Session(3, id=f"s{number}").turn().raw, file_name(3), f"s{number}")
    build(lake, root)
    log(root, Session(4, id="s2").turn().turn().raw, file_name(4), "s2")
    build(lake, root)
    assert renewals == [{"s2"}]
    assert_as_anew(lake)


def test_states_between_that_were_never_published_count(
    root: Path, lake: Path, renewals: list[frozenset[str] | None]
) -> None:
    some_logs(root, 12)
    build(lake, root)
    for name in ("s1", "s2"):
        grow(root, name)
        assert main(["ingest", str(root), "--lake", str(lake), "-q"]) == 0
    grow(root, "s4")
    build(lake, root)
    assert renewals == [{"s1", "s2", "s4"}]
    assert_as_anew(lake)


def test_where_much_differs_all_is_built_anew(root: Path, lake: Path, renewals: list[frozenset[str] | None]) -> None:
    some_logs(root, 4)
    build(lake, root)
    for name in ("s0", "s1"):
        grow(root, name)
    assert set(whys(build(lake, root)).values()) == {"grown"}
    assert renewals == [None]
    assert_as_anew(lake)


@pytest.mark.parametrize("words", [("--full",), ("--currency", "CNY")], ids=" ".join)
def test_asked_for_everything_or_something_else_nothing_is_renewed(
    words: tuple[str, ...], root: Path, lake: Path, renewals: list[frozenset[str] | None]
) -> None:
    some_logs(root)
    build(lake, root)
    grow(root, "s1")
    build(lake, root, *words)
    assert main(["model", "--lake", str(lake), "-q", *(words if "--currency" in words else ())]) == 0
    assert renewals == []


def test_a_database_that_someone_wrote_to_is_not_renewed(
    root: Path, lake: Path, renewals: list[frozenset[str] | None]
) -> None:
    some_logs(root)
    build(lake, root)
    with duckdb.connect(Lake(lake).database) as db:
        db.execute("delete from marts.sessions")
    grow(root, "s1")
    build(lake, root)
    assert renewals == []
    assert_as_anew(lake)


def test_what_can_not_be_renewed_is_built_anew(
    root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some_logs(root)
    build(lake, root)
    grow(root, "s1")

    def refuse(*_words: Any) -> int:
        raise ModelError("no")

    with monkeypatch.context() as patch:
        patch.setattr(renew, "run_checks", refuse)
        build(lake, root)
    assert "can't be renewed and is built anew (no)" in capsys.readouterr().err
    assert_as_anew(lake)


def test_only_parts_with_rows_of_the_session_are_read(root: Path, lake: Path) -> None:
    some_logs(root)
    build(lake, root)
    log(root, Session(4, id="new").turn().raw, session="new")
    before = current(lake)
    assert main(["ingest", str(root), "--lake", str(lake), "-q"]) == 0
    grow(root, "new")
    middle = current(lake)
    assert main(["ingest", str(root), "--lake", str(lake), "-q"]) == 0
    with duckdb.connect() as db:
        change = change_between(middle, current(lake), db)
        assert change is not None and change.sessions == {"new"} and len(change.log_ids) == 1
        assert len(change.files.tables["events"]) < len(current(lake).part_files("events"))
        nothing = change_between(before, before, db)
    assert nothing is not None and not nothing.sessions


# Any history.


class Followed(History):
    """A history whose lake is built, not only read, at each step."""

    def is_built(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sources = self.rng.choice([self.roots, self.roots, self.roots[:1], self.roots[1:]])
        words = self.rng.choice([(), (), (), (), (), ("--full",), ("--purge-missing",), ("--max-line", "300")])
        self.said.append(f"build {[source.name for source in sources]} {words}")
        build(self.lake, *sources, *words)


@pytest.mark.parametrize("seed", range(3 * HISTORIES))
def test_any_history_gives_the_database_of_a_build_anew(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renewals: list[frozenset[str] | None]
) -> None:
    monkeypatch.setattr(changes, "MOST_RENEWED", 100)
    history = Followed(tmp_path, 3000 + seed, pool())
    history.step()
    build(history.lake, *history.roots)
    for _ in range(history.rng.randint(2, 5)):
        history.step()
        history.is_built(monkeypatch)
        print(*history.said, sep="\n")
        assert_as_anew(history.lake)
    assert None not in renewals


# A session made alone has the rows that it has among all.


@pytest.fixture(scope="module")
def sample(root_of_checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    lake = tmp_path_factory.mktemp("sample") / "lake"
    assert main(["ingest", str(root_of_checkout / "data" / "sample"), "--lake", str(lake), "-q"]) == 0
    yield current(lake)


@pytest.fixture(scope="module")
def root_of_checkout() -> Path:
    return sql_folder().parent


def renewed_by_hand(database: Path, state: State, sessions: frozenset[str], target: Path) -> None:
    """The database with these sessions made again, though nothing about them changed."""
    shutil.copyfile(database, target)
    with connected(target, Limits(threads=1)) as db:
        log_ids = changes._logs_of(db, sessions, state)
        files = changes.files_of(state, log_ids)
        with in_use(target, db):
            renew._renew(db, target, state.raw_files(), Change(sessions, log_ids, files), sql_folder())


def test_sessions_made_alone_have_the_rows_they_have_among_all(sample: State, tmp_path: Path) -> None:
    database = tmp_path / "all.duckdb"
    build_database(sample.raw_files(), database, threads=1)
    expected = everything(database)
    with opened(database) as db:
        sessions = [name for (name,) in db.execute("select session_id from marts.sessions order by 1").fetchall()]
    rng = Random(1)
    chosen = [sessions, *([name] for name in rng.sample(sessions, 5)), rng.sample(sessions, 4)]
    for names in chosen:
        renewed_by_hand(database, sample, frozenset(names), tmp_path / "renewed.duckdb")
        assert differences(everything(tmp_path / "renewed.duckdb"), expected) == {}, names


# What models say of themselves.


def test_models_that_are_made_whole_read_no_events() -> None:
    with duckdb.connect() as db:
        models = read_models(sql_folder(), db)
    whole = [model for model in models if not model.is_by_session and model.stored_as == "table"]
    assert {"marts.usage_daily", "marts.sessions"} <= {model.name for model in whole}
    for model in whole:
        assert not model.reads & {"staging.events", "staging.chunk_runs", "staging.payloads"}, model.path


def test_models_by_session_have_it_in_their_key() -> None:
    with duckdb.connect() as db:
        for model in read_models(sql_folder(), db):
            if model.is_by_session and model.name != "staging.logs":
                assert "session_id" in {key.column for key in model.grain}, model.path
