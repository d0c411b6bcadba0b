"""Logs to a new state of the lake: all tables, every finding, the same bytes whatever the workers."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from logs import SPARED, VERSIONS, Session, as_zstd, dumps, file_name, frame, header, write
from stores import make_store
from test_invariants import BREACHES, session_after
from test_invariants_order import WARNINGS, session_of
from turnlake.findings import CODES
from turnlake.lake import copies
from turnlake.lake.files import TAIL_PART
from turnlake.lake.ingest import Ingested, ingest
from turnlake.lake.manifest import read_manifest
from turnlake.lake.plan import Options
from turnlake.rows.tables import TABLES
from turnlake.rows.writer import TAIL
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source

Row = dict[str, Any]


def ingested(work: Path, *roots: Path, **options: Any) -> Ingested:
    discovery = find_logs([parse_source(str(root)) for root in roots])
    return ingest(discovery, work, Options(workers=1, **options))


def rows(work: Path, table: str) -> list[Row]:
    return [row for path in sorted((work / table).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def files(work: Path) -> dict[str, bytes]:
    return {str(path.relative_to(work)): path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A sessions root with a log of each format."""
    for version in VERSIONS:
        session = Session(version, id=f"s{version}").turn().turn_with_call()
        write(tmp_path / "root", session.raw, file_name(version), f"s{version}")
    return tmp_path / "root"


def test_all_tables_and_the_manifest(root: Path, tmp_path: Path) -> None:
    done = ingested(tmp_path / "work", root)
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == sorted([*TABLES, TAIL, "manifest.json"])
    for name, table in TABLES.items():
        for path in (tmp_path / "work" / name).glob("*"):
            assert pq.read_schema(path).equals(table.schema())
        assert (tmp_path / "work" / name / TAIL_PART).is_file() is (name != "logs")
    logs = rows(tmp_path / "work", "logs")
    assert [row["session_id"] for row in logs] == [f"s{version}" for version in VERSIONS]
    assert done.events_added == sum(row["event_count"] for row in logs) == 96
    assert (done.refused_count, done.is_partial, len(done.read)) == (0, False, len(logs))
    manifest = read_manifest(json.loads((tmp_path / "work" / "manifest.json").read_bytes()))
    assert set(manifest.logs) == {row["log_id"] for row in logs}


def test_progress_adds_up(root: Path, tmp_path: Path) -> None:
    counts: list[int] = []
    discovery = find_logs([parse_source(str(root))])
    ingest(discovery, tmp_path / "work", Options(workers=1), counts.append)
    assert sum(counts) == len(discovery.logs)


def test_an_empty_root(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    assert ingested(tmp_path / "work", tmp_path / "root").logs == ()
    assert all(rows(tmp_path / "work", table) == [] for table in TABLES)
    assert all(any((tmp_path / "work" / table).iterdir()) for table in TABLES)


def test_equal_input_gives_equal_bytes(root: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        ingested(tmp_path / name, root)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_the_longest_line_is_an_option(root: Path, tmp_path: Path) -> None:
    done = ingested(tmp_path / "work", root, max_line=400)
    unread = [row["line_count"] for row in rows(tmp_path / "work", "findings") if row["code"] == "unread_line"]
    assert sum(unread) == sum(row["unread_line_count"] for row in done.logs) > 0


PROGRAM = """
import sys
from turnlake.cli import main
from turnlake.lake import workers
workers.BATCH_LOGS = 2
raise SystemExit(main(sys.argv[1:]))
"""


def test_one_and_two_workers_give_the_same_state(root: Path, tmp_path: Path) -> None:
    """In processes of their own: a pool may only be forked where no other thread runs."""
    lakes = []
    for workers in (1, 2):
        lake = tmp_path / f"lake{workers}"
        words = ["ingest", str(root), "--lake", str(lake), "--workers", str(workers), "--json"]
        done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=100)
        assert (done.returncode, json.loads(done.stdout)["logs_read"]) == (0, 5)
        lakes.append(files(lake / ".states"))
    assert len([name for name in lakes[0] if "/events/part-" in name]) == 3
    assert lakes[0] == lakes[1]


def test_one_of_several_generations_counts(tmp_path: Path) -> None:
    for version in (0, 3):
        write(tmp_path / "root", Session(version).turn().raw, file_name(version))
    ingested(tmp_path / "work", tmp_path / "root")
    by_name = {row["file_name"]: row for row in rows(tmp_path / "work", "logs")}
    old, new = by_name["session.jsonl"], by_name["session.v3.jsonl"]
    assert (old["superseded_by"], old["superseded_why"], new["superseded_by"]) == (new["log_id"], "generation", None)
    assert old["session_id"] == new["session_id"] == "s1"


def test_what_is_no_log_is_named_and_has_no_row(tmp_path: Path) -> None:
    write(tmp_path / "root", b"# notes\n", "notes.jsonl")
    assert ingested(tmp_path / "work", tmp_path / "root").logs == ()
    found = rows(tmp_path / "work", "findings")
    assert {row["code"] for row in found} == {"not_a_log", "flat_layout"}
    assert all("notes.jsonl" in row["detail"] or row["code"] == "flat_layout" for row in found)


def test_a_copy_that_cannot_be_compared_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in "ab":
        write(tmp_path / machine, Session(4).turn().raw)

    def refuse(*logs: Any) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(copies, "durable_lines_of", refuse)
    ingested(tmp_path / "work", tmp_path / "a", tmp_path / "b")
    found = rows(tmp_path / "work", "findings")
    assert {row["code"] for row in found} - SPARED == {"unreadable_file", "diverged_copy"}


# What tells only when all calls and all sessions are known: found by the models, and tested with them. And what
# comes of damage to the lake, see test_faults.py.
OF_MODELS = {"approval_unmatched", "lineage_cycle", "lost_log"}
OF_READERS = [code for code in CODES if code not in OF_MODELS]

# For each other code one log, or one thing in a root, that gives it.


def log_of(*acts: Callable[[Session], Any], version: int = 4, **members: Any) -> bytes:
    session = Session(version, **members).turn()
    for act in acts:
        act(session)
    return session.raw


def bomb() -> bytes:
    block = (128 << 10 << 3 | 2).to_bytes(3, "little") + b"a"
    return as_zstd(Session(4).lines) + b"\x28\xb5\x2f\xfd\x00\x68" + block * 3000


def event(type_: str, data: Any = None, **members: Any) -> Callable[[Session], Any]:
    return lambda s: s.add(type_, {} if data is None else data, **members)


TURN_END = event("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, seq=99)
OLD_USER = event("user/message", {"content": [], "source": {"kind": "user"}}, surfaceOp="append")
STREAMLESS = {
    "turn": 1,
    "step": 1,
    "message": {"id": "a", "role": "assistant", "content": [], "source": {"kind": "model"}},
}
TITLE = b'{"type":"session/title","seq":6,"time":5,"data":{"title":"\xff"}}'

LOGS: dict[str, tuple[str, bytes]] = {
    **{code: (file_name(versions[0]), session_after(versions[0], act).raw) for code, versions, _, _, act in BREACHES},
    **{code: (file_name(versions[0]), session_of(versions[0], act).raw) for code, versions, act in WARNINGS},
    "INV-01": ("session.v4.jsonl", log_of(id="")),
    "INV-04": ("session.v4.jsonl", log_of(event("x/new"))),
    "INV-05": ("session.jsonl", log_of(event("user/message"), version=0)),
    "INV-07": ("session.jsonl", log_of(event("user/message", surfaceOp="append", sourceEventSeqs=[]), version=0)),
    "INV-26": ("session.v4.jsonl", log_of(event("assistant/message", STREAMLESS, surfaceOp="append"))),
    "INV-27": ("session.v4.jsonl", log_of(event("assistant/message", {"stream": [1]}, surfaceOp="append"))),
    "INV-43": ("session.v4.jsonl", log_of(isSeeded=True)),
    "bad_record": ("session.v4.jsonl", log_of(event("user/message", surfaceOp="append", sourceEventSeqs=1))),
    "branch": ("session.v4.jsonl", log_of(event("todo/write", seq=1))),
    "clock_went_back": ("session.v4.jsonl", log_of(event("todo/write", time=1))),
    "corrupt_middle": ("session.v4.jsonl", log_of(lambda s: s.line(b"{"), TURN_END)),
    "decompression_bomb": ("session.v4.jsonl.zstd", bomb()),
    "first_frame_not_header": ("session.v4.jsonl.zstd", frame(Session(4).turn().raw)),
    "frame_corrupt": ("session.v4.jsonl.zstd", as_zstd(Session(4).lines) + b"garbage"),
    "frame_ends_in_line": ("session.v4.jsonl.zstd", as_zstd(Session(4).lines) + frame(b"half")),
    "invalid_utf8": ("session.v4.jsonl", log_of(lambda s: s.line(TITLE))),
    "legacy_shape_in_v1": ("session.v1.jsonl", log_of(OLD_USER, version=1)),
    "lone_surrogate": ("session.v4.jsonl", log_of(event("session/title", {"title": "\ud83d"}))),
    "no_header": ("session.v4.jsonl", b"{}\n"),
    "not_a_log": ("notes.jsonl", b"# notes\n"),
    "path_mismatch": ("session.v4.jsonl", log_of(id="elsewhere")),
    "seq_gap": ("session.v4.jsonl", log_of(event("todo/write", seq=99))),
    "unknown_header_key": ("session.jsonl", log_of(version=0, favourite="blue")),
    "unknown_type": ("session.v4.jsonl", log_of(event("x/new", ignorable=True))),
    "unread_line": ("session.v4.jsonl", log_of(lambda s: s.line(b"{"))),
    "unsupported_legacy": ("session.jsonl", log_of(event("mode/set"), version=0)),
    "version_mismatch": ("session.v3.jsonl", log_of()),
}  # fmt: skip


def patched_zip(path: Path, at: int, value: bytes) -> None:
    """An export whose one entry has other bytes at a place of the central directory."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("session.jsonl", "x")
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02") + at
    data[start : start + len(value)] = value
    path.write_bytes(data)


def two_entries(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("session.jsonl", "x")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("session.jsonl", "y")


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def deep(path: Path) -> None:
    (path / Path(*"abcdefghij")).mkdir(parents=True)


def diverged(path: Path) -> None:
    for number in (1, 2):
        write(path, Session(4, id="twin").turn(f"words {number}").raw, project=f"p{number}")


def namesakes(path: Path) -> None:
    for number in (1, 2):
        write(path, Session(4, id="namesake", createdAt=number).turn().raw, session=f"s{number}")


def twice(path: Path) -> None:
    write(path, Session(4, id="twice").raw)
    write(path, as_zstd(Session(4, id="twice").lines), "session.v4.jsonl.zstd")


def of_no_session(path: Path) -> None:
    make_store(path, [Session(0, id="stored").turn().lines])
    with closing(sqlite3.connect(path)) as db:
        db.execute("insert into events (session_id, seq) values ('gone', 0)")
        db.commit()


PLACES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "archive_absurd_size": ("dsh-session-a.zip", lambda path: patched_zip(path, 24, (2**31).to_bytes(4, "little"))),
    "archive_duplicate_entry": ("dsh-session-b.zip", two_entries),
    "archive_encrypted_entry": ("dsh-session-c.zip", lambda path: patched_zip(path, 8, b"\x01")),
    "archive_unreadable": ("dsh-session-d.zip", lambda path: path.write_bytes(b"PK\x03\x04")),
    "deleted_marker": ("deleted/session.deleted", Path.touch),
    "diverged_copy": ("diverged", diverged),
    "duplicate_session_id": ("namesakes", namesakes),
    "flat_layout": ("flat.jsonl", lambda path: path.write_bytes(Session(4, id="flat").raw)),
    "folder_too_deep": ("deep", deep),
    "ignored_file": ("x.zip", Path.touch),
    "mixed_compression": ("twice", twice),
    "not_a_regular_file": ("fifo/session.jsonl", os.mkfifo),
    "store_session_unread": ("store.db", of_no_session),
    "store_unreadable": ("broken.db", lambda path: path.write_bytes(b"SQLite format 3\x00")),
    "symlink_outside": ("link/session.jsonl", lambda path: path.symlink_to(path.parents[2] / "outside")),
    "unreadable_file": ("dangling/session.jsonl", dangling),
    "unreadable_folder": ("locked/x", Path.touch),
}


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders named `locked` can't be listed, whoever runs this."""
    scandir = os.scandir

    def refuse(path: Any) -> Iterator[Any]:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)


def place(root: Path, code: str) -> None:
    if code in LOGS:
        name, data = LOGS[code]
        write(root, data, name, code)
    else:
        name, make = PLACES[code]
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)


@pytest.mark.usefixtures("locked")
@pytest.mark.parametrize("code", OF_READERS)
def test_every_code_is_found_where_it_should_be(code: str, tmp_path: Path) -> None:
    (tmp_path / "outside").touch()
    (tmp_path / "root").mkdir()
    place(tmp_path / "root", code)
    ingested(tmp_path / "work", tmp_path / "root")
    found = [row for row in rows(tmp_path / "work", "findings") if row["code"] == code]
    assert found
    for row in found:
        assert row["severity"] in ("error", "warning", "advisory")
        assert row["detail"]
        assert code in LOGS or row["line"] is None
        assert row["excerpt"] is None or len(row["excerpt"]) <= 200


@pytest.mark.usefixtures("locked")
def test_all_of_them_in_one_root(tmp_path: Path) -> None:
    (tmp_path / "outside").touch()
    expected = set(OF_READERS) - {"decompression_bomb"}
    for code in sorted(expected):
        place(tmp_path / "root", code)
    done = ingested(tmp_path / "work", tmp_path / "root")
    found = rows(tmp_path / "work", "findings")
    assert {row["code"] for row in found} == expected
    known = {row["log_id"] for row in done.logs}
    assert {row["log_id"] for row in found} <= known | {None}
    counting = [row["session_id"] for row in done.logs if row["superseded_by"] is None]
    assert len(set(counting)) == len(counting)


def test_no_code_is_without_its_log() -> None:
    assert LOGS.keys() | PLACES.keys() | OF_MODELS == CODES.keys()
    assert not OF_MODELS & (LOGS.keys() | PLACES.keys())


ODD_IDS = ["", "../../etc", "/", "s1", "s1", "x" * 5000, "a\0b", "'; drop table logs; --", 7, None, [], {}]


def ingested_ids(tmp_path: Path, ids: list[Any]) -> set[str]:
    """The session ids of logs whose headers state these ids."""
    for number, id_ in enumerate(ids):
        data = dumps(header(0, id=id_, createdAt=number, cwd=id_)) + b"\n" + Session(0).turn().raw.split(b"\n", 1)[1]
        write(tmp_path / "root", data, "session.jsonl", f"s{number}")
    return {row["session_id"] for row in ingested(tmp_path / "work", tmp_path / "root").logs}


def test_a_header_may_say_anything(tmp_path: Path) -> None:
    """Ids that are equal, empty, or look like paths: every log keeps a session of its own."""
    assert len(ingested_ids(tmp_path, ODD_IDS)) == len(ODD_IDS)


def test_a_header_may_hold_half_a_surrogate_pair(tmp_path: Path) -> None:
    assert len(ingested_ids(tmp_path, ["\ud83d", "\ud83e"])) == 2


def test_an_export_may_hold_a_compressed_log(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with zipfile.ZipFile(tmp_path / "root" / "dsh-session-s1.zip", "w") as archive:
        archive.writestr("session.v4.jsonl.zstd", as_zstd(Session(4).turn().lines, [2]))
    [log] = ingested(tmp_path / "work", tmp_path / "root").logs
    assert (log["verdict"], log["container"], log["event_count"]) == ("clean", "zstd", 6)
