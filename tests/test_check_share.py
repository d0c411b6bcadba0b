"""Sessions shared out among processes: each is in one share, and whoever compares them, the rows are the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checked import event_files
from conftest import ROOT
from logs import Session as Log
from logs import file_name, write
from turnlake.api import connect
from turnlake.check import scans, share
from turnlake.check.database import check_sessions, reading, sessions_of, stored_checks, written
from turnlake.check.outcome import Session
from turnlake.check.scans import MESSAGES, TRANSCRIPT, Scans, scanning
from turnlake.check.weight import VECTOR, memory_for, parsed_at_once
from turnlake.cli import main
from turnlake.lake.state import Lake
from turnlake.rows.writer import GROUP_BYTES

# A session: the megabytes of its lines, and which part holds its rows.
SIZES = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 5)), max_size=60)


def session(number: int, size: int) -> Session:
    """A session that says nothing but how big it is."""
    return Session(f"s{number}", f"log{number}", None, None, 0, 0, size << 20)


@given(sizes=SIZES, workers=st.integers(1, 5))
def test_each_session_is_in_one_share_and_no_share_is_much_bigger_than_allowed(
    sizes: list[tuple[int, int]], workers: int
) -> None:
    sizes.sort(key=lambda one: one[1])
    sessions = [session(number, size) for number, (size, _) in enumerate(sizes)]
    parts = {f"log{number}": (f"part{part}",) for number, (_, part) in enumerate(sizes)}
    groups = list(share._groups(sessions, parts, workers))
    assert [one for some in groups for one in some] == sessions
    assert all(groups)
    if sum(one.decoded_bytes for one in sessions) <= share.LEAST_BYTES:
        assert len(groups) <= 1
    for group in groups:
        assert sum(one.decoded_bytes for one in group[:-1]) < share.MOST_BYTES * 1.5


def test_a_part_is_read_by_one_share_where_it_is_not_too_big() -> None:
    sessions = [session(number, 10) for number in range(12)]
    parts = {f"log{number}": (f"part{number // 4}",) for number in range(12)}
    groups = list(share._groups(sessions, parts, 2))
    assert [len(group) for group in groups] == [8, 4]


def test_a_big_session_is_in_no_share_with_others_of_other_parts() -> None:
    sessions = [session(0, 10), session(1, 300), session(2, 10)]
    parts = {f"log{number}": (f"part{number}",) for number in range(3)}
    assert [len(group) for group in share._groups(sessions, parts, 1)] == [1, 1, 1]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the sample."""
    folder = tmp_path_factory.mktemp("share") / "lake"
    assert main(["build", str(ROOT / "data" / "sample"), "--lake", str(folder), "--workers", "1", "-q"]) == 0
    return folder


@pytest.mark.parametrize(
    ("workers", "memory", "most", "heavy"),
    [
        (1, None, 10**9, 10**9),
        (2, None, 10**9, 10**9),
        (2, "400MB", 10**9, 10**9),
        (2, None, 125_000, 10**9),
        (2, None, 10**9, 1),
    ],
)
def test_whoever_compares_the_rows_are_the_same(
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    memory: str | None,
    most: int,
    heavy: int,
) -> None:
    monkeypatch.setattr(share, "LEAST_BYTES", 1000)
    monkeypatch.setattr(share, "MOST_BYTES", 100_000)
    monkeypatch.setattr(share, "MOST_TOGETHER", most)
    monkeypatch.setattr(scans, "MOST_HELD", 50_000)
    monkeypatch.setattr(scans, "MOST_HEAVY_HELD", 20_000)
    monkeypatch.setattr(share, "HEAVY", heavy)
    monkeypatch.setattr(scans, "HEAVY", heavy)
    state = Lake(lake).current()
    assert state is not None
    copy = shutil.copy(lake / "turnlake.duckdb", tmp_path / "copy.duckdb")
    with written(Path(copy)) as db:
        before = stored_checks(db)
        db.execute("delete from marts.projection_checks")
        shares = share.shares_of(sessions_of(db), state, workers)
    assert len(shares) > 2
    assert {one.decoded_bytes > most for one in shares} == ({False} if most == 10**9 else {False, True})
    assert {one.is_big for one in shares} == {1: {True}, 10**9: {False} if most == 10**9 else {False, True}}[heavy]
    assert share.fill_database(Path(copy), state, workers, memory) == before
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
        assert {check.is_equal for check in check_sessions(db, sessions, event_files(db))} == {True}
        thoroughly = check_sessions(db, sessions, event_files(db), is_thorough=True)
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


def test_content_is_that_of_the_files_named_as_long_as_it_is_asked(lake: Path, tmp_path: Path) -> None:
    state = Lake(lake).current()
    assert state is not None
    with reading(lake / "turnlake.duckdb", tmp_path) as db:
        sessions = sessions_of(db)[:2]
        whole = read_transcript(db, sessions, event_files(db))
        assert {row[0] for row in whole if row[-1] is not None} == {one.session_id for one in sessions}
        tail = [path for path in event_files(db) if path.name == "tail.parquet"]
        assert {row[-1] for row in read_transcript(db, sessions, tail)} == {None}
        assert db.execute("select count(*) from marts.transcript where content is null").fetchall() == [(0,)]


def read_transcript(db: duckdb.DuckDBPyConnection, sessions: list[Session], files: list[Path]) -> list[tuple[Any, ...]]:
    """The rows of these sessions, in order; no two pieces tell of the same event."""
    with scanning(db, sessions, files) as rows:
        read = [row for _ in rows.pieces() for row in rows(TRANSCRIPT)]
    assert len({row[:2] for row in read}) == len(read)
    return sorted(read, key=lambda row: row[:2])


@pytest.mark.parametrize("most", [1, 3_000, 50_000])
def test_what_is_read_does_not_depend_on_how_much_is_held(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    with reading(lake / "turnlake.duckdb", tmp_path) as db:
        sessions = sorted(sessions_of(db), key=lambda one: -one.decoded_bytes)[:3]
        whole = read_transcript(db, sessions, event_files(db))
        monkeypatch.setattr(scans, "MOST_HELD", most)
        with scanning(db, sessions, event_files(db)) as rows:
            assert len(list(rows.pieces())) > 1
        assert read_transcript(db, sessions, event_files(db)) == whole


@pytest.mark.parametrize("name", ["it's", 'a "b" {c} %s', "n\x00ul"])
def test_a_session_may_have_any_id(tmp_path: Path, name: str) -> None:
    write(tmp_path / "logs", Log(4, id=name).turn().raw, file_name(4))
    main(["build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"])
    with connect(tmp_path / "lake") as db:
        checks = stored_checks(db)
    assert [(check.session_id, check.is_equal) for check in checks] == [(name, True)]


def test_the_footers_tell_how_much_is_parsed_at_a_time(tmp_path: Path) -> None:
    """Two thousand rows, or a line that is longer than all else in its row group may be."""
    row = pa.table({"seq": [0], "ints": [[1, 2]], "payload": ["x"], "sql_payload": pa.array([None], pa.string())})
    for name, rows, line in (("light", 20_000, 0), ("few", 10, 0), ("long", 20_000, 30_000_000)):
        table = pa.concat_tables([row] * rows)
        payloads = [f"{number:0100}" for number in range(rows)]
        payloads[0] = "x" * line or payloads[0]
        table = table.set_column(2, "payload", [payloads])
        pq.write_table(table, tmp_path / name, use_dictionary=False)
    assert parsed_at_once([]) == 0
    assert VECTOR * 100 < parsed_at_once([tmp_path / "light"]) < VECTOR * 120
    assert 1000 < parsed_at_once([tmp_path / "few"]) < 1500
    assert 30_000_000 - GROUP_BYTES < parsed_at_once([tmp_path / "light", tmp_path / "long"]) < 30_000_000
    assert memory_for(GROUP_BYTES, 500) == "500MB"
    assert memory_for(GROUP_BYTES + 100_000_000, 500) == "2900MB"


def test_a_line_far_longer_than_what_memory_there_is_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "MEMORY_MB", 60)
    log = Log(4).turn().turn_with_call(words="a bc " * (6 << 20)).turn()
    write(tmp_path / "logs", log.raw, file_name(4))
    assert main(["build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    assert main(["check", "--strict", "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
