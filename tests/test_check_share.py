"""Sessions shared out among processes: each is in one share, and whoever compares them, the rows are the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from logs import Session as Log
from logs import file_name, write
from turnlake.api import connect
from turnlake.check import share
from turnlake.check.database import check_sessions, reading, sessions_of, stored_checks, written
from turnlake.check.outcome import Session
from turnlake.check.scans import MESSAGES, TRANSCRIPT, Scans, of_logs
from turnlake.cli import main

SIZES = st.lists(st.integers(0, 40), max_size=60)


def session(number: int, size: int) -> Session:
    """A session that says nothing but how big it is."""
    return Session(f"s{number}", f"log{number}", None, None, 0, 0, size << 20)


@given(sizes=SIZES, workers=st.integers(1, 5))
def test_each_session_is_in_one_share_and_no_share_is_much_bigger_than_allowed(sizes: list[int], workers: int) -> None:
    sessions = [session(number, size) for number, size in enumerate(sizes)]
    shares = share._shares(sessions, workers)
    assert [one for some in shares for one in some] == sessions
    assert all(shares)
    if sum(sizes) << 20 <= share.LEAST_BYTES:
        assert len(shares) <= 1
    for some in shares:
        assert sum(one.decoded_bytes for one in some[:-1]) < share.MOST_BYTES


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the sample."""
    folder = tmp_path_factory.mktemp("share") / "lake"
    assert main(["build", str(ROOT / "data" / "sample"), "--lake", str(folder), "--workers", "1", "-q"]) == 0
    return folder


@pytest.mark.parametrize(("workers", "memory"), [(1, None), (2, None), (2, "400MB")])
def test_whoever_compares_the_rows_are_the_same(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, memory: str | None
) -> None:
    monkeypatch.setattr(share, "LEAST_BYTES", 1000)
    monkeypatch.setattr(share, "MOST_BYTES", 100_000)
    copy = shutil.copy(lake / "turnlake.duckdb", tmp_path / "copy.duckdb")
    with written(Path(copy)) as db:
        before = stored_checks(db)
        db.execute("delete from marts.projection_checks")
        assert len(share._shares(sessions_of(db), workers)) > 2
    assert share.fill_database(Path(copy), workers, memory) == before
    with written(Path(copy)) as db:
        assert stored_checks(db) == before
    assert not list(tmp_path.glob("spill-*"))


def test_thoroughly_the_content_of_messages_is_read_too(lake: Path, tmp_path: Path) -> None:
    copy = shutil.copy(lake / "turnlake.duckdb", tmp_path / "copy.duckdb")
    with written(Path(copy)) as db:
        db.execute("create table main.messages as from marts.messages")
        db.execute("update main.messages set content = '[]' where content like '%e%' and position = 1")
        db.execute("create or replace view marts.messages as from main.messages")
        db.execute("delete from marts.projection_checks")
        sessions = sessions_of(db)
        assert {check.is_equal for check in check_sessions(db, sessions)} == {True}
        thoroughly = check_sessions(db, sessions, is_thorough=True)
    assert {check.first_difference_position for check in thoroughly if not check.is_equal} == {1}


@pytest.mark.parametrize(("named", "is_thorough"), [((), False), (("s1",), True)])
def test_named_sessions_are_read_thoroughly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...], is_thorough: bool
) -> None:
    write(tmp_path / "logs", Log(4).turn().raw, file_name(4))
    assert main(["build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    asked = []

    def scan(self: Scans, query: str) -> Iterator[tuple[Any, ...]]:
        asked.append(query)
        return unspied(self, query)

    unspied = Scans.__call__
    monkeypatch.setattr(Scans, "__call__", scan)
    assert main(["check", *named, "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    assert (MESSAGES in asked) is is_thorough


def test_views_are_of_some_logs_only_as_long_as_they_are_asked(lake: Path, tmp_path: Path) -> None:
    with reading(lake / "turnlake.duckdb", tmp_path) as db:
        sessions = sessions_of(db)
        one, other = sessions[:2]
        rows = list(Scans(db, [one.session_id, other.session_id])(TRANSCRIPT))
        with of_logs(db, [one.log_id]):
            some = list(Scans(db, [one.session_id, other.session_id])(TRANSCRIPT))
        assert sorted(row[:4] for row in some) == sorted(row[:4] for row in rows)
        assert {row[0] for row in some if row[-1] is not None} == {one.session_id}
        assert {row[0] for row in rows if row[-1] is not None} == {one.session_id, other.session_id}
        after = list(Scans(db, [one.session_id, other.session_id])(TRANSCRIPT))
        assert sorted(after) == sorted(rows)


@pytest.mark.parametrize("name", ["it's", 'a "b" {c} %s', "n\x00ul"])
def test_a_session_may_have_any_id(tmp_path: Path, name: str) -> None:
    write(tmp_path / "logs", Log(4, id=name).turn().raw, file_name(4))
    main(["build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"])
    with connect(tmp_path / "lake") as db:
        checks = stored_checks(db)
    assert [(check.session_id, check.is_equal) for check in checks] == [(name, True)]
