from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pytest

from turnlake.errors import LakeError, TurnlakeError
from turnlake.files import link_or_copy
from turnlake.lake.loads import Load, LogRead, append_load
from turnlake.lake.state import STEPS, Lake, State
from turnlake.rows.tables import LAKE_FORMAT, TABLES

Content = Mapping[str, bytes]


class Killed(Exception):
    """Stands for the death of a build."""


def stop_at(step: str, occurrence: int = 1) -> Callable[[str], None]:
    seen: Counter[str] = Counter()

    def on_step(passed: str) -> None:
        assert passed in STEPS
        seen[passed] += 1
        if passed == step and seen[step] == occurrence:
            raise Killed(step)

    return on_step


def content(version: int) -> dict[str, bytes]:
    """The files of a state, by table/name: one that never changes, one that does, one that comes and one that goes."""
    parts = {f"{table}/part-00000.parquet": f"{table} for ever".encode() for table in TABLES}
    return {
        **parts,
        "logs/part-00000.parquet": f"logs {version}".encode(),
        "events/part-00001.parquet": f"events {version}".encode(),
        f"events/part-0010{version}.parquet": b"short-lived",
    }


def published_id(lake: Lake) -> str | None:
    """The state the database in place was built from; None where there is none."""
    published = lake.published()
    return published.state_id if published else None


def stage(lake: Lake, parts: Content) -> Path:
    work = lake.work_dir()
    for table in TABLES:
        (work / table).mkdir()
    for name, data in parts.items():
        (work / name).write_bytes(data)
    (work / "manifest.json").write_text(json.dumps({"logs": [], "parts": len(parts)}))
    return work


def build(lake: Lake, version: int) -> State:
    """What a build does, with a text in place of a database."""
    with lake.lock(wait=False):
        lake.sweep()
        work = stage(lake, content(version))
        state = lake.commit_state(work)
        database = work / "new.duckdb"
        database.write_text(f"{version} {state.id}")
        lake.publish(state, database, {"prices": f"hash {version}"})
        shutil.rmtree(work)
        return state


def files_in(folder: Path) -> dict[str, bytes]:
    return {f"{table}/{path.name}": path.read_bytes() for table in TABLES for path in (folder / table).iterdir()}


def kept_states(lake: Lake) -> set[str]:
    return {path.name for path in (lake.path / ".states").iterdir() if path.is_dir()}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_a_new_lake(lake: Lake) -> None:
    assert lake.check_format() == "new"
    assert lake.current() is None
    assert lake.published() is None
    with lake.lock():
        lake.sweep()
    assert lake.check_format() == "new"


def test_a_build_is_read_through_globs_and_through_the_state(lake: Lake) -> None:
    state = build(lake, 1)
    assert lake.check_format() == "same"
    assert lake.current() == state
    assert published_id(lake) == state.id
    published = lake.published()
    assert published is not None and published.inputs == {"prices": "hash 1"}
    assert files_in(lake.path) == files_in(state.path) == content(1)
    raw = state.raw_files()
    assert list(raw.tables) == list(TABLES)
    assert raw.tables["events"] == tuple(
        state.path.absolute() / "events" / f"part-{number}.parquet" for number in ("00000", "00001", "00101")
    )
    assert raw.loads == lake.loads.absolute()
    assert state.manifest()["parts"] == len(content(1))
    assert sorted(path.name for path in lake.path.iterdir()) == sorted(
        [*TABLES, ".lock", ".states", "format", "loads.jsonl", "turnlake.duckdb"]
    )


def test_the_same_files_are_the_same_state(lake: Lake, tmp_path: Path) -> None:
    state = build(lake, 1)
    other = Lake(tmp_path / "other")
    build(other, 2)
    assert build(other, 1).id == state.id
    assert build(lake, 1) == state
    assert build(lake, 2) != state


def test_what_did_not_change_is_stored_once(lake: Lake) -> None:
    first, second = build(lake, 1), build(lake, 2)
    name = "chunk_runs/part-00000.parquet"
    assert (first.path / name).samefile(second.path / name)
    assert (lake.path / name).samefile(second.path / name)
    assert not (first.path / "logs/part-00000.parquet").samefile(second.path / "logs/part-00000.parquet")


def test_a_part_carried_over_is_not_read_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(lake, 1)
    with lake.lock():
        work = stage(lake, {})
        for name in content(1):
            link_or_copy(first.path / name, work / name)
        monkeypatch.setattr("hashlib.file_digest", None)
        assert lake.commit_state(work) == first


def test_a_table_without_a_file_is_refused(lake: Lake) -> None:
    with lake.lock(), pytest.raises(TurnlakeError, match="findings"):
        lake.commit_state(stage(lake, {name: b"" for name in content(1) if not name.startswith("findings")}))
    assert lake.current() is None


def test_a_database_that_was_not_closed_is_refused(lake: Lake) -> None:
    state = build(lake, 1)
    database = lake.work_dir() / "new.duckdb"
    database.write_text("2")
    database.with_name("new.duckdb.wal").write_text("changes")
    with pytest.raises(TurnlakeError, match="not closed"):
        lake.publish(state, database)
    assert lake.database.read_text().startswith("1 ")


def test_changes_to_the_old_database_do_not_meet_the_new_one(lake: Lake) -> None:
    build(lake, 1)
    stray = lake.database.with_name("turnlake.duckdb.wal")
    stray.write_text("changes")
    build(lake, 2)
    assert not stray.exists()


def test_the_states_of_two_databases_before_are_kept(lake: Lake) -> None:
    states = [build(lake, version).id for version in (1, 2, 3, 4)]
    assert kept_states(lake) == set(states[1:])
    assert build(lake, 2).id == states[1]
    assert kept_states(lake) == {states[2], states[3], states[1]}
    assert files_in(lake.path) == content(2)


def test_a_state_that_was_not_published_goes_when_the_next_one_is_there(lake: Lake) -> None:
    first = build(lake, 1)
    for version in (2, 3):
        with lake.lock():
            lake.sweep()
            newest = lake.commit_state(stage(lake, content(version)))
    assert published_id(lake) == first.id
    assert lake.current() == newest
    with lake.lock():
        lake.sweep()
    assert kept_states(lake) == {first.id, newest.id}
    assert files_in(lake.path) == content(1)


def test_everything_is_private_whatever_the_umask(lake: Lake) -> None:
    before = os.umask(0)
    try:
        build(lake, 1)
        with lake.lock():
            append_load(lake, load("x"))
    finally:
        os.umask(before)
    for path in (lake.path, *lake.path.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_that_was_there_keeps_its_mode(lake: Lake) -> None:
    lake.path.mkdir()
    lake.path.chmod(0o755)
    build(lake, 1)
    assert lake.path.stat().st_mode & 0o777 == 0o755


def test_without_hard_links_files_are_copied(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def hardlink_to(_self: Path, _target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    build(lake, 1)
    state = build(lake, 2)
    assert files_in(lake.path) == files_in(state.path) == content(2)
    # Nothing is copied again where the folders are known to be right.
    monkeypatch.setattr("shutil.copyfile", None)
    with lake.lock():
        lake.sweep()


def test_a_newer_format_is_refused(lake: Lake) -> None:
    build(lake, 1)
    (lake.path / "format").write_text(f"{LAKE_FORMAT + 1}\n")
    with pytest.raises(LakeError, match=f"knows format {LAKE_FORMAT + 1}"):
        lake.check_format()


def test_an_older_format_is_rebuilt(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    build(lake, 1)
    monkeypatch.setattr("turnlake.lake.state.LAKE_FORMAT", LAKE_FORMAT + 1)
    assert lake.check_format() == "rebuild"
    # Killed between raising the number and committing the state.
    with pytest.raises(Killed):
        build(Lake(lake.path, stop_at("format written")), 2)
    assert (lake.path / "format").read_text() == f"{LAKE_FORMAT + 1}\n"
    assert lake.check_format() == "rebuild"
    build(lake, 1)
    assert lake.check_format() == "same"


@pytest.mark.parametrize("text", ["", "one"])
def test_a_format_that_is_no_number_is_refused_where_nothing_else_tells_it(lake: Lake, text: str) -> None:
    build(lake, 1)
    (lake.path / "format").write_text(text)
    assert lake.check_format() == "same"
    (lake.path / ".states" / "current").unlink()
    with pytest.raises(LakeError, match="not a number"):
        lake.check_format()


def test_a_folder_with_files_of_the_same_names_is_no_lake(lake: Lake) -> None:
    (lake.path / "logs").mkdir(parents=True)
    with pytest.raises(LakeError, match="is no lake, but holds logs"):
        lake.check_format()


@pytest.mark.parametrize("pointer", ["", "{}", '{"state": "../../x", "format": 1}', '{"state": "0123456789abcdef"}'])
def test_a_damaged_pointer_is_told(lake: Lake, pointer: str) -> None:
    build(lake, 1)
    (lake.path / ".states" / "current").write_text(pointer)
    with pytest.raises(LakeError, match="names no state"):
        lake.current()


def test_a_state_that_is_gone_is_told(lake: Lake) -> None:
    state = build(lake, 1)
    shutil.rmtree(state.path)
    assert published_id(lake) is None
    with pytest.raises(LakeError, match="is gone"):
        lake.current()


def test_a_database_of_unknown_origin_is_not_taken_for_ours(lake: Lake) -> None:
    state = build(lake, 1)
    lake.database.write_text("something else")
    assert published_id(lake) is None
    lake.database.unlink()
    assert published_id(lake) is None
    with lake.lock():
        lake.sweep()
    assert files_in(state.path) == content(1)
    build(lake, 1)
    assert published_id(lake) == state.id


def test_two_databases_of_one_size_and_instant_are_told_apart(lake: Lake) -> None:
    states = []
    for version in (1, 2, 3):
        with lake.lock():
            work = stage(lake, content(version))
            states.append(lake.commit_state(work))
            (work / "new.duckdb").write_text("same")
            os.utime(work / "new.duckdb", ns=(10**18, 10**18))
            stopping = Lake(lake.path, stop_at("database announced")) if version == 3 else lake
            try:
                stopping.publish(states[-1], work / "new.duckdb")
            except Killed:
                assert version == 3
    assert published_id(lake) == states[1].id


def test_what_other_builds_left_is_swept(lake: Lake) -> None:
    state = build(lake, 1)
    mine = stage(lake, {})
    (lake.path / ".build-1" / "events").mkdir(parents=True)
    (lake.path / ".states" / "0123456789abcdef").mkdir()
    (lake.path / ".states" / "fedcba9876543210.old" / "events").mkdir(parents=True)
    (lake.path / ".states" / "fedcba9876543210").mkdir()
    with lake.lock():
        lake.sweep()
    assert [path.name for path in lake.path.glob(".build-*")] == [mine.name]
    assert kept_states(lake) == {state.id}


def test_what_the_user_keeps_in_a_table_folder_stays(lake: Lake) -> None:
    build(lake, 1)
    (lake.path / "events" / "notes.txt").write_text("mine")
    build(lake, 2)
    assert (lake.path / "events" / "notes.txt").read_text() == "mine"


# Where a build of version 4 over the versions 1 to 3 can die: a step, and how often it was passed.
KILL_POINTS = [
    *((step, 1) for step in STEPS),
    *(("part linked", occurrence) for occurrence in (2, 3)),
]


def assert_whole_after_death(lake: Lake, old: State) -> None:
    """The database is that of version 3 or 4, its state is whole, and so are those of readers of older ones."""
    version, state_id = lake.database.read_text().split()
    assert version in ("3", "4")
    assert published_id(lake) == state_id
    published = lake.published()
    assert published is not None and published.inputs == {"prices": f"hash {version}"}
    assert files_in(lake.path / ".states" / state_id) == content(int(version))
    assert files_in(old.path) == content(3)
    assert lake.current() is not None
    assert lake.check_format() == "same"


def assert_repaired(lake: Lake) -> None:
    with lake.lock(wait=False):
        lake.sweep()
    version = int(lake.database.read_text().split()[0])
    assert files_in(lake.path) == content(version)
    state = build(lake, 4)
    assert files_in(lake.path) == content(4)
    assert published_id(lake) == state.id
    assert state.id in kept_states(lake) and len(kept_states(lake)) <= 3
    assert not [path for path in lake.path.rglob("*") if path.suffix in (".new", ".old")]


@pytest.mark.parametrize(("step", "occurrence"), KILL_POINTS)
def test_a_build_that_dies_leaves_the_old_or_the_new_whole(lake: Lake, step: str, occurrence: int) -> None:
    for version in (1, 2):
        build(lake, version)
    old = build(lake, 3)
    with pytest.raises(Killed):
        build(Lake(lake.path, stop_at(step, occurrence)), 4)
    assert_whole_after_death(lake, old)
    assert_repaired(lake)


def test_a_half_made_copy_in_a_table_folder_is_removed(lake: Lake) -> None:
    build(lake, 1)
    with pytest.raises(Killed):
        build(Lake(lake.path, stop_at("part linked")), 2)
    (lake.path / "events" / "part-00101.parquet.new").write_text("hal")
    assert_repaired(lake)


@pytest.mark.parametrize("step", STEPS[:-4])
def test_the_first_build_may_die_too(lake: Lake, step: str) -> None:
    with pytest.raises(Killed):
        build(Lake(lake.path, stop_at(step)), 1)
    assert lake.check_format() in ("new", "same")
    build(lake, 1)
    assert files_in(lake.path) == content(1)


@pytest.mark.parametrize(("first", "second"), [("database announced", "state moved"), ("part linked", "part removed")])
def test_dying_twice(lake: Lake, first: str, second: str) -> None:
    for version in (1, 2):
        build(lake, version)
    old = build(lake, 3)
    for step in (first, second):
        with pytest.raises(Killed):
            build(Lake(lake.path, stop_at(step)), 4)
        assert_whole_after_death(lake, old)
    assert_repaired(lake)


KILLED_BUILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1])))
from test_state import Lake, build
build(Lake(Path(sys.argv[2]), lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == sys.argv[3] else None), 4)
"""


@pytest.mark.parametrize("step", ["state staged", "database announced", "database published", "part linked"])
def test_a_build_killed_for_real(lake: Lake, step: str) -> None:
    build(lake, 2)
    old = build(lake, 3)
    here = Path(__file__).parent
    killed = subprocess.run([sys.executable, "-c", KILLED_BUILD, str(here), str(lake.path), step], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in lake.path.glob(".build-*")]
    assert_whole_after_death(lake, old)
    assert_repaired(lake)
    assert not list(lake.path.glob(".build-*"))


def build_real(lake: Lake, number: int) -> None:
    """A build whose database reads real Parquet."""
    with lake.lock():
        lake.sweep()
        work = stage(lake, {})
        for table in TABLES:
            duckdb.sql(f"copy (select {number} as n) to '{work / table}/part-00000.parquet'")
        state = lake.commit_state(work)
        with duckdb.connect(work / "new.duckdb") as connection:
            [path] = state.raw_files().tables["events"]
            connection.execute(f"create view events as from read_parquet('{path}')")
        lake.publish(state, work / "new.duckdb")
        shutil.rmtree(work)


def open_database(lake: Lake) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"attach '{lake.database}' as lake (read_only)")
    connection.execute("use lake")
    return connection


def test_a_reader_goes_on_across_two_publications(lake: Lake) -> None:
    build_real(lake, 1)
    with open_database(lake) as old:
        for number in (2, 3):
            build_real(lake, number)
            assert old.execute("select n from events").fetchall() == [(1,)]
            with open_database(lake) as new:
                assert new.execute("select n from events").fetchall() == [(number,)]
                glob = f"from read_parquet('{lake.path}/events/*.parquet')"
                assert new.execute(glob).fetchall() == [(number,)]


def load(path: str) -> Load:
    return Load("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z", "build", 3, 1, 2, 0, 17, (LogRead(path, "new"),))


def loads_of(lake: Lake) -> list[object]:
    query = "select read[1].path from read_json(?, format='newline_delimited')"
    with duckdb.connect() as connection:
        return [path for (path,) in connection.execute(query, [str(lake.loads)]).fetchall()]


def test_runs_are_appended(lake: Lake) -> None:
    with lake.lock():
        for path in ("a", "b\nc", "d\udce9\ud83d"):
            append_load(lake, load(path))
    assert loads_of(lake) == ["a", "b\nc", "d" + "\ufffd" * 6]
    assert json.loads(lake.loads.read_text().splitlines()[0]) == {
        "started_at": "2026-01-02T03:04:05Z",
        "finished_at": "2026-01-02T03:04:06Z",
        "command": "build",
        "logs_seen": 3,
        "logs_read": 1,
        "logs_unchanged": 2,
        "logs_refused": 0,
        "events_added": 17,
        "read": [{"path": "a", "why": "new"}],
    }


@pytest.mark.parametrize("torn", [b'{"started_at":"2026', b"x" * 200_000])
def test_a_torn_last_line_is_cut_off(lake: Lake, torn: bytes) -> None:
    with lake.lock():
        append_load(lake, load("a"))
        with lake.loads.open("ab") as file:
            file.write(torn)
        append_load(lake, load("b"))
        assert loads_of(lake) == ["a", "b"]
        lake.loads.write_bytes(torn)
        append_load(lake, load("c"))
        assert loads_of(lake) == ["c"]
