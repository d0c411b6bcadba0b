"""The SQLite store: its sessions give the rows that the same sessions give as files, and nothing beside it changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logs import TABLES, Session, file_name, part_rows, write
from stores import COMPRESSED_FROM, SCHEMA, add_session, make_store, varint, varints
from turnlake.errors import SourceError
from turnlake.lake.convert import Batch, Converted, convert
from turnlake.lake.ingest import ingest
from turnlake.lake.log_table import rows_of_logs
from turnlake.lake.plan import Options
from turnlake.lake.state import Lake
from turnlake.messages.log import Log, read_log
from turnlake.sample.write import write_sample
from turnlake.sources import sqlite_file
from turnlake.sources.container import open_log
from turnlake.sources.discover import Discovery, find_logs
from turnlake.sources.logfile import LogFile
from turnlake.sources.source import parse_source
from turnlake.sources.sqlite import decode_seqs

# Where a log lies and how it is stored.
PLACE = {"log_id", "path", "file_name", "generation", "bytes", "container", "decoded_bytes", "torn_bytes", "source"}


def found(path: Path) -> Discovery:
    return find_logs([parse_source(str(path))])


def tables(logs: tuple[LogFile, ...], folder: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The rows of `logs` by session and those of the other tables, without what only says where a line stands."""
    converted: list[Converted] = convert(Batch("p.parquet", logs), folder)
    names = {one.log_id: one.row["header_id"] for one in converted if one.row}
    rows = {
        table: sorted(
            (
                {key: value for key, value in row.items() if key != "byte_offset"} | {"log_id": names[row["log_id"]]}
                for row in part_rows(folder, table, "p.parquet")
            ),
            key=repr,
        )
        for table in TABLES
    }
    logs_rows = {
        names[one.log_id]: {key: value for key, value in one.row.items() if key not in PLACE}
        for one in converted
        if one.row
    }
    return logs_rows, rows


def lines_of(log: LogFile, max_line: int = 10**6) -> list[bytes]:
    with open_log(log, max_line) as file:
        return file.read().splitlines()


def store_of(path: Path, *sessions: Session, **options: Any) -> Path:
    return make_store(path, [session.lines for session in sessions], **options)


def changed(path: Path, statement: str, *values: Any) -> Path:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(statement, values).rowcount == 1
        db.commit()
    return path


def read_changed(tmp_path: Path, session: Session, statement: str, *values: Any) -> Log:
    """The one session of a store after a statement."""
    return read_log(changed(store_of(tmp_path / "s.db", session), statement, *values))


def two_turns() -> Session:
    return Session(0).turn().turn()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Callable[[], dict[str, tuple[int, int, bytes]]]]:
    """What is in the folder of the stores, to be the same afterwards."""

    def listing() -> dict[str, tuple[int, int, bytes]]:
        paths = [path for path in tmp_path.iterdir() if path.is_file()]
        return {path.name: (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes()) for path in paths}

    yield listing


def test_a_store_gives_the_tables_that_the_files_give(tmp_path: Path) -> None:
    write_sample(tmp_path / "root", sessions=6, megabytes=0.4, version=0, seed=3, raw=True)
    logs = found(tmp_path / "root").logs
    contents = [log.file.read_bytes().splitlines() for log in logs]
    make_store(tmp_path / "store.sqlite", contents)
    in_store = found(tmp_path / "store.sqlite").logs
    from_files, from_store = tables(logs, tmp_path / "a"), tables(in_store, tmp_path / "b")
    assert from_store == from_files
    assert len(from_files[0]) == len(logs) and len(from_files[1]["chunk_runs"]) > 100
    # The sample has what only a store writes its own way.
    text = b"\n".join(line for lines in contents for line in lines)
    assert b"sourceEventSeqs" in text and b"-chunks" in text
    assert max(len(line) for lines in contents for line in lines) > COMPRESSED_FROM


def test_sessions_are_logs_of_their_own(tmp_path: Path) -> None:
    sessions = [Session(0, id=id_).turn() for id_ in ("s1", "../../x", "a/b.zstd", "session.v3.jsonl", "é\x1b[31m\n")]
    store = store_of(tmp_path / "my.db", *sessions)
    logs = found(tmp_path).logs
    assert [log.path for log in logs] == [
        "my.db!/..~002F..~002Fx",
        "my.db!/a~002Fb.zstd",
        "my.db!/s1",
        "my.db!/session.v3.jsonl",
        "my.db!/~00E9~001B~005B31m~000A",
    ]
    assert {(one.row or {})["container"] for one in convert(Batch("c.parquet", logs), tmp_path / "c")} == {"sqlite"}
    assert {log.generation for log in logs} == {None}
    assert len({log.log_id for log in logs}) == 5 and {log.os_path for log in logs} == {str(store)}
    assert [row["verdict"] for row in tables(logs, tmp_path / "t")[0].values()] == ["clean"] * 5


def test_a_session_reads_as_its_log(tmp_path: Path) -> None:
    session = Session(0, seedLength=0, origin="subagent", agentPreset="code").turn_with_call(words="x" * 9000).turn()
    session.user("again", surfaceOp={"op": "replace", "start": 2, "end": 2}, sourceEventSeqs=[2])
    session.packed(["a", "b", "c"], [5, -3])
    plain = read_log(write(tmp_path / "root", session.raw, file_name(0)))
    stored = read_log(store_of(tmp_path / "anything", session))
    assert (stored.header, stored.events, stored.verdict) == (plain.header, plain.events, plain.verdict)
    assert stored.derive_messages() == plain.derive_messages()


def test_a_store_of_several_sessions_is_no_one_log(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s.db", Session(0), Session(0, id="s2"))
    with pytest.raises(SourceError, match="holds 2 logs"):
        read_log(store)


@pytest.mark.parametrize("name", ["s.db", "S.SQLITE", "s.sqlite3"])
def test_names_of_stores(name: str, tmp_path: Path) -> None:
    store_of(tmp_path / name, Session(0).turn())
    assert [log.path for log in found(tmp_path).logs] == [f"{name}!/s1"]


def test_a_folder_named_like_the_inside_of_a_store(tmp_path: Path) -> None:
    store_of(tmp_path / "s.db", Session(0, id="session.jsonl").turn())
    (tmp_path / "s.db!").mkdir()
    (tmp_path / "s.db!" / "session.jsonl").write_bytes(Session(0).turn().raw)
    logs = found(tmp_path).logs
    assert len({log.log_id for log in logs}) == len({log.path for log in logs}) == 2


# Nothing beside it, and no lock on it


def test_a_store_at_rest_is_not_copied(tmp_path: Path, files: Any) -> None:
    store_of(tmp_path / "s.db", two_turns())
    before = files()
    assert read_log(tmp_path / "s.db").verdict.verdict == "clean"
    assert files() == before and str(tmp_path / "s.db") not in sqlite_file._copies


def test_a_store_left_in_wal_mode_is_read_as_it_is(tmp_path: Path, files: Any) -> None:
    store_of(tmp_path / "s.db", two_turns(), wal=True)
    before = files()
    assert list(before) == ["s.db"]
    assert read_log(tmp_path / "s.db").verdict.verdict == "clean"
    assert files() == before


@pytest.mark.parametrize("mode", ["wal", "persist"])
def test_a_live_store_is_read_as_committed(mode: str, tmp_path: Path, files: Any) -> None:
    store_of(tmp_path / "s.db", two_turns())
    with closing(sqlite3.connect(tmp_path / "s.db", timeout=0)) as writer:
        writer.execute(f"pragma journal_mode = {mode}")
        add_session(writer, Session(0, id="s2").turn().lines)
        writer.commit()
        add_session(writer, Session(0, id="s3").turn().lines)
        # More than the cache holds, so that what is not committed is in the file.
        writer.execute("pragma cache_size = 1")
        writer.execute("insert into events values ('s3', 90000, 'x/y', 0, ?, null, null, null)", ("x" * 100_000,))
        before = files()
        logs = found(tmp_path).logs
        assert [log.entry for log in logs] == ["s1", "s2"]
        assert [len(lines_of(log)) for log in logs] == [len(two_turns().lines), len(Session(0).turn().lines)]
        assert files() == before
        # A reader's lock would keep the writer from this.
        writer.commit()
        writer.execute("pragma wal_checkpoint(truncate)")
    assert [log.entry for log in found(tmp_path).logs] == ["s1", "s2", "s3"]


def test_a_reader_holds_no_lock_while_it_reads(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s.db", two_turns())
    [log] = found(store).logs
    with open_log(log) as file:
        file.read(1)
        with closing(sqlite3.connect(store, timeout=0)) as writer:
            writer.execute("begin exclusive")


def test_a_store_that_changes_while_it_is_read_is_told(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s.db", two_turns())
    [log] = found(store).logs
    with open_log(log) as file:
        file.read(1)
        changed(store, "update sessions set revision = 2")
        with pytest.raises(OSError, match="changed while it was read"):
            file.read()
    # Who does not read to the end does not care.
    with open_log(log) as file:
        file.read(1)
        changed(store, "update sessions set revision = 3")


def test_a_copy_that_finds_no_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(tmp_path / "s.db", two_turns())
    with closing(sqlite3.connect(tmp_path / "s.db")) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("update sessions set revision = 2")
        writer.commit()
        monkeypatch.setattr(sqlite_file, "_SPARE_BYTES", 2**62)
        [(_, finding)] = found(tmp_path).findings
    assert finding.code == "store_unreadable" and "set TMPDIR" in finding.detail


def test_copies_are_gone_when_the_process_ends(tmp_path: Path, turnlake: Any) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "logs").mkdir()
    store = store_of(tmp_path / "logs" / "s.db", *(Session(0, id=f"s{n}").turn() for n in range(5)))
    with closing(sqlite3.connect(store)) as writer:
        writer.execute("pragma journal_mode = wal")
        changed(store, "update sessions set revision = 2 where id = 's1'")
        done = turnlake("ingest", "logs", "--workers", "2", TMPDIR=str(tmp_path / "tmp"))
    assert done.returncode == 0 and done.stdout.startswith("5 of 5 logs read, 0 refused")
    assert list((tmp_path / "tmp").iterdir()) == []


# What is no store, or a damaged one


def notes(path: Path) -> list[tuple[str, str, str]]:
    discovery = found(path)
    assert discovery.logs == ()
    return [(finding.code, Path(place).name, finding.detail) for place, finding in discovery.findings]


def test_databases_of_other_programs(tmp_path: Path) -> None:
    changed_mark = tmp_path / "other.db"
    with closing(sqlite3.connect(changed_mark)) as db:
        db.executescript(SCHEMA + "pragma application_id = 1")
    (tmp_path / "thumbs.db").write_bytes(b"MZ")
    (tmp_path / "empty.db").touch()
    assert notes(tmp_path) == [
        ("ignored_file", "empty.db", "no SQLite database"),
        ("ignored_file", "other.db", "a database of another program: application_id 0x1"),
        ("ignored_file", "thumbs.db", "no SQLite database"),
    ]
    assert notes(changed_mark)[0][0] == "store_unreadable"


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("pragma user_version = 18", "schema version 18; 17 is the one that is known"),
        ("drop table events", "it has no tables sessions and events"),
        ("drop table events; create view events as select 1", "it has no tables sessions and events"),
        ("alter table sessions rename column id to name", "damaged: no such column: s.id"),
    ],
)
def test_stores_of_another_schema(script: str, detail: str, tmp_path: Path) -> None:
    store = store_of(tmp_path / "s.db", two_turns())
    with closing(sqlite3.connect(store)) as db:
        db.executescript(script)
    assert notes(tmp_path) == [("store_unreadable", "s.db", detail)]


def test_a_damaged_store_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    store = store_of(tmp_path / "a.db", *(Session(0, id=f"s{n}").turn(answer="x" * 3000) for n in range(9)))
    data = bytearray(store.read_bytes())
    data[4096 : len(data) // 2] = bytes(len(data) // 2 - 4096)
    store.write_bytes(data)
    store_of(tmp_path / "b.db", two_turns())
    discovery = found(tmp_path)
    [(place, finding)] = discovery.findings
    assert (finding.code, place) == ("store_unreadable", str(store)) and finding.detail.startswith("damaged: ")
    assert [log.path for log in discovery.logs] == ["b.db!/s1"]


def test_a_store_cut_short_never_gives_less_in_silence(tmp_path: Path) -> None:
    store = store_of(tmp_path / "a.db", *(Session(0, id=f"s{n}").turn(answer="x" * 3000) for n in range(9)))
    whole = store.read_bytes()
    for pages in range(1, len(whole) // 4096):
        store.write_bytes(whole[: pages * 4096])
        discovery = found(store)
        if discovery.findings:
            assert discovery.logs == ()
            continue
        rows = [one.row or {} for one in convert(Batch("p.parquet", discovery.logs), tmp_path / str(pages))]
        assert any(row["verdict_reason"] == "unreadable" for row in rows)


def test_rows_of_no_session_are_counted(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s.db", two_turns())
    with closing(sqlite3.connect(store)) as db:
        db.executemany(
            "insert into events (session_id, seq, data) values (?, 0, '{}')", [("gone",), ("",), ("x" * 999,)]
        )
        db.executemany("insert into sessions (id) values (?)", [("",), ("x" * 999,)])
        db.commit()
    discovery = found(store)
    assert [log.entry for log in discovery.logs] == ["s1"]
    details = [finding.detail.partition(" whose")[0] for _, finding in discovery.findings]
    assert details == ["1 rows of a session", "1 rows of a session", "1 rows of no session"]


def test_an_id_that_is_no_utf8_is_read(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s.db", two_turns())
    with closing(sqlite3.connect(store)) as db:
        db.execute("update sessions set id = cast(x'61ff' as text)")
        db.execute("update events set session_id = cast(x'61ff' as text)")
        db.commit()
    [log] = found(store).logs
    assert log.entry == "a~DCFF" and len(lines_of(log)) == len(two_turns().lines)


# Rows: what is malformed, and what that does to the log


LAST = "where seq = (select max(seq) from events)"
USER = "where type = 'user/message' and seq < 5"
BOMB = zstandard.ZstdCompressor().compress(bytes(3_000_000))


@pytest.mark.parametrize(
    "change",
    [
        "data = '{'",
        'data = \'{}\n{"type":"turn/end"}\'',
        "data = '{}, \"ignorable\": true'",
        "data = x'00'",
        "data = x'28b52ffd'",
        "data = null",
        "data = 7.5",
        "ignorable = 7",
        "ignorable = 0",
        "surface_op = 'append'",
        "source_event_seqs = x'8000'",
        "source_event_seqs = x'80'",
        "source_event_seqs = x'0103'",
        "source_event_seqs = x'ffffffffffffffffffff01'",
        "source_event_seqs = 1.5",
        "seq = 70000",
    ],
)
def test_a_malformed_row_is_a_tail_or_breaks_the_log(change: str, tmp_path: Path) -> None:
    """Fatal if a finished turn follows, else removable with all behind it (spec 1.7)."""
    open_end = Session(0).turn().open_step()
    open_end.add("session/title", {"title": "x"})
    in_tail = "where type = 'user/message' and seq > 10"
    tail = read_changed(tmp_path, open_end, f"update events set {change} {in_tail}")
    assert tail.verdict.verdict == "removable_tail"
    [cut] = [seq for seq, line in enumerate(open_end.lines[1:]) if b"user/message" in line and seq > 10]
    assert tail.verdict.accepted_event_count == cut
    if change.startswith("seq"):
        return
    (tmp_path / "s.db").unlink()
    broken = read_changed(tmp_path, two_turns(), f"update events set {change} {USER}")
    assert (broken.verdict.verdict, broken.verdict.reason) == ("refused", "corrupt")


def test_a_missing_row_is_a_gap(tmp_path: Path) -> None:
    log = read_changed(tmp_path, two_turns(), f"delete from events {USER}")
    assert log.verdict.verdict == "refused" and {"seq_gap", "corrupt_middle"} <= {f.code for f in log.findings}


def test_an_event_with_malformed_sources_is_still_a_row(tmp_path: Path) -> None:
    session = Session(0).open_step()
    session.assistant("Hello")
    log = read_changed(tmp_path, session, f"update events set source_event_seqs = x'8000' {LAST}")
    assert log.verdict.unread_line_count == 0 and log.records[-1].event["type"] == "assistant/message"


def test_ignorable_rows_keep_their_mark(tmp_path: Path) -> None:
    session = Session(0).turn()
    session.add("their/own", {}, ignorable=True)
    log = read_log(store_of(tmp_path / "s.db", session))
    assert log.verdict.verdict == "clean" and log.events[-1]["ignorable"] is True


@pytest.mark.parametrize("data", [BOMB, "[" + "0," * 600_000 + "0]"])
def test_a_row_beyond_the_longest_line_is_one_unread_line(data: object, tmp_path: Path) -> None:
    store = changed(store_of(tmp_path / "s.db", two_turns()), f"update events set data = ? {USER}", data)
    log = read_log(store, max_line=1_000_000)
    [excerpt] = [finding.excerpt for finding in log.findings if finding.code == "unread_line"]
    assert excerpt and excerpt.startswith("malformed row, seq 2: ") and "longer than the longest line" in excerpt
    assert log.verdict.unread_line_count == 1 and log.verdict.reason == "corrupt"
    assert len(log.records) == len(two_turns().lines) - 2


def test_json_of_several_lines_stays_one_record(tmp_path: Path) -> None:
    log = read_changed(tmp_path, two_turns(), "update events set data = replace(data, '{', '{\n ') where seq = 0")
    assert log.verdict.verdict == "clean"


@given(st.lists(st.integers(0, 2**53 - 1)))
def test_sequence_numbers_come_back(seqs: list[int]) -> None:
    assert decode_seqs(varints(seqs)) == seqs


def test_a_varint_has_one_form(tmp_path: Path) -> None:
    assert varint(300) == b"\xac\x02" and decode_seqs(b"\xac\x02\x03\x04") == [300, 298, 300]


# What changed


def test_only_a_store_that_changed_is_read_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    store_of(root / "a.db", two_turns(), Session(0, id="s2").turn())
    store_of(root / "b.db", Session(0, id="s3").turn())
    lake = Lake(tmp_path / "lake")
    with lake.lock():
        read = [path for path, _ in _ingested(lake, root)]
        assert read == ["a.db!/s1", "a.db!/s2", "b.db!/s3"]
        with closing(sqlite3.connect(root / "a.db")) as writer:
            writer.execute("pragma journal_mode = wal")
            writer.execute("delete from events where session_id = 's1' and seq > 5")
            writer.commit()
            assert _ingested(lake, root) == [("a.db!/s1", "changed"), ("a.db!/s2", "changed")]
            assert _ingested(lake, root) == []


def test_sessions_of_a_store_that_cannot_be_read_stay(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    store = store_of(root / "a.db", two_turns())
    lake = Lake(tmp_path / "lake")
    with lake.lock():
        _ingested(lake, root)
        store.write_bytes(store.read_bytes()[:4096])
        _ingested(lake, root)
        state = lake.current()
    assert state is not None
    [row] = rows_of_logs(state).values()
    assert row["verdict"] == "clean" and row["is_missing"] is False


def _ingested(lake: Lake, root: Path) -> list[tuple[str, str]]:
    work = lake.work_dir()
    done = ingest(found(root), work, Options(1), before=lake.current())
    lake.commit_state(work)
    return list(done.read)
