"""Only what is new is read, and the lake is the same as if everything had been: rows, marts, and what is opened."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from conftest import Run
from logs import Session, as_raw, as_zstd, dumps, file_name, frame
from test_ingest import LOGS
from turnlake.api import connect
from turnlake.cli import main
from turnlake.lake import convert, copies, manifest, reuse_parts
from turnlake.lake.state import Lake, State
from turnlake.rows import tables
from turnlake.sources import container, frames
from turnlake.sources.logfile import LogFile

Row = dict[str, Any]
Contents = dict[str, list[str]]

# Random histories of each kind; TURNLAKE_HISTORIES=200 looks longer.
HISTORIES = int(os.environ.get("TURNLAKE_HISTORIES", "2"))
OPTIONS = ("--workers", "1")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def ingest(lake: Path, *words: Path | str) -> Row:
    """One ingest; its line in the loads."""
    assert main(["ingest", *map(str, words), "--lake", str(lake), *OPTIONS]) == 0
    return loads(lake)[-1]


def build(lake: Path, *words: Path | str) -> Row:
    """One build; its line in the loads."""
    assert main(["build", *map(str, words), "--lake", str(lake), *OPTIONS]) == 0
    return loads(lake)[-1]


def loads(lake: Path) -> list[Row]:
    return [json.loads(line) for line in (lake / "loads.jsonl").read_text().splitlines()]


def whys(load: Row) -> dict[str, str]:
    """Why each log was read, by the folder it lies in."""
    return {read["path"].rpartition("/")[0].rpartition("/")[2]: read["why"] for read in load["read"]}


def current(lake: Path) -> State:
    state = Lake(lake).current()
    assert state is not None
    return state


def stored(lake: Path, table: str) -> list[Row]:
    """The rows of a raw table in the newest state."""
    return [row for path in current(lake).part_files(table) for row in pq.read_table(path).to_pylist()]


def contents(lake: Path) -> Contents:
    """All rows of all raw tables, in one order."""
    return {table: sorted(json.dumps(row, sort_keys=True) for row in stored(lake, table)) for table in tables.TABLES}


def marts(lake: Path) -> Contents:
    """All rows of all marts, in one order."""
    with connect(lake) as db:
        names = db.execute("select table_name from duckdb_tables() where schema_name = 'marts' order by 1").fetchall()
        return {name: sorted(map(repr, db.execute(f'from marts."{name}"').fetchall())) for (name,) in names}


def differences(ours: Contents, fresh: Contents) -> dict[str, tuple[list[str], list[str]]]:
    """By table the rows that only one of two lakes has."""
    pairs = {name: (ours[name].copy(), fresh[name].copy()) for name in fresh}
    for mine, theirs in pairs.values():
        for row in [row for row in mine if row in theirs]:
            if row in theirs:
                mine.remove(row)
                theirs.remove(row)
    return {name: pair for name, pair in pairs.items() if any(pair)}


def assert_as_fresh(lake: Path, *sources: Path, with_marts: bool = False) -> None:
    """The lake holds what one would that is made now, from nothing."""
    fresh = lake.with_name("fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    ingest(fresh, *sources)
    assert differences(contents(lake), contents(fresh)) == {}
    if with_marts:
        build(lake, *sources)
        build(fresh, *sources)
        assert differences(marts(lake), marts(fresh)) == {}


_clock = iter(range(10**9, 2 * 10**9))


def put(path: Path, data: bytes) -> Path:
    """Write the file, later than every other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    seconds = next(_clock)
    os.utime(path, (seconds, seconds))
    return path


def log(root: Path, data: bytes, name: str = "session.v4.jsonl", session: str = "s1") -> Path:
    return put(root / "--w--" / session / name, data)


# The case of the public reports.


def test_it_grew_then_nothing_then_another_parser(
    cases: Path, root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json.loads((cases / "S14" / "expected.json").read_bytes())

    def run(name: str) -> Row:
        load = build(lake, root)
        with connect(lake) as db:
            assert db.execute("select sum(input_tokens) from marts.attempts").fetchone() == (expected[name]["input"],)
        return load

    log(root, (cases / "S14" / "run1" / "session.jsonl").read_bytes(), "session.jsonl")
    assert run("run1")["events_added"] == expected["run1"]["events"]
    log(root, (cases / "S14" / "run2" / "session.jsonl").read_bytes(), "session.jsonl")
    load = run("run2")
    assert (load["events_added"], whys(load)) == (expected["run2"]["new_events"], {"s1": "grown"})
    load = run("run3_unchanged")
    assert (load["logs_read"], load["logs_unchanged"]) == (0, 1)
    monkeypatch.setattr(tables, "PARSER_VERSION", tables.PARSER_VERSION + 1)
    load = run("run4_parser_version_bumped")
    assert (load["logs_read"], whys(load)) == (1, {"s1": "parser"})
    assert build(lake, root)["logs_read"] == 0
    assert_as_fresh(lake, root)


# Random histories.


def lines_of(data: bytes) -> list[bytes]:
    return data.removesuffix(b"\n").split(b"\n")


def pool() -> list[tuple[str, bytes]]:
    """Logs with something of everything: one for each code of finding, and whole ones of each version."""
    logs = [(name, data) for code, (name, data) in sorted(LOGS.items()) if code != "decompression_bomb"]
    for version in (0, 1, 2, 3, 4):
        session = Session(version, id=f"v{version}").turn().turn_with_call().turn("\u2028", "\U0001f600")
        session.line({"type": "x/new", "seq": session.seq, "time": 1, "data": {"a": "\ud83d"}, "ignorable": True}, 1)
        session.turn()
        logs += [(file_name(version), session.raw)] * 3
        split = Session(version, id=f"w{version}").turn().turn()
        split.seq -= 4
        logs.append((file_name(version), split.turn().raw))
    return logs


class History:
    """Sources under which logs come, grow and go, and a lake that follows."""

    def __init__(self, folder: Path, seed: int, logs: list[tuple[str, bytes]]) -> None:
        self.rng = Random(seed)
        self.logs = logs
        self.lake = folder / "lake"
        self.roots = (folder / "root", folder / "backup")
        for root in self.roots:
            root.mkdir()
        self.whole: dict[Path, bytes] = {}
        self.said: list[str] = []
        for number in range(self.rng.randint(1, 4)):
            name, data = self.drawn()
            self.whole[self.roots[0] / "--w--" / f"s{number}" / name] = data

    def drawn(self) -> tuple[str, bytes]:
        name, data = self.rng.choice(self.logs)
        if name.endswith(".jsonl") and data and self.rng.random() < 0.4:
            lines = lines_of(data)
            counts = [self.rng.randint(1, 3) for _ in lines]
            return name + ".zstd", as_zstd(lines, counts)
        return name, data

    def length(self, path: Path) -> int:
        return path.stat().st_size if path.exists() else 0

    def step(self) -> None:
        """Something happens to each log."""
        for path in list(self.whole):
            happening = self.rng.choice(HAPPENINGS)
            self.said.append(f"{path.parent.name} {happening.__name__}")
            happening(self, path)

    def grows(self, path: Path) -> None:
        data = self.whole[path]
        here = self.length(path)
        put(path, data[: here + self.rng.randint(0, max(1, len(data) - here))])

    def is_whole(self, path: Path) -> None:
        put(path, self.whole[path])

    def rests(self, path: Path) -> None:
        pass

    def is_rewritten(self, path: Path) -> None:
        data = next(
            data for name, data in iter(self.drawn, None) if name.endswith("zstd") == path.name.endswith("zstd")
        )
        self.whole[path] = data
        put(path, data[: self.rng.randint(0, len(data))])

    def is_truncated(self, path: Path) -> None:
        put(path, self.whole[path][: self.rng.randint(0, self.length(path))])

    def is_empty(self, path: Path) -> None:
        put(path, b"")

    def is_deleted(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def is_repaired(self, path: Path) -> None:
        """The torn end is cut off, and what it held is written again in another way, and more."""
        if not path.name.endswith("zstd") and path.exists():
            kept = path.read_bytes()[: path.read_bytes().rfind(b"\n") + 1]
            rest = self.whole[path][len(kept) :].replace(b'"Hello"', b'"Hallo"').replace(b'"Hi"', b'"Oh"')
            self.whole[path] = kept + rest
            put(path, kept + rest[: self.rng.randint(0, len(rest))])

    def is_migrated(self, path: Path) -> None:
        name, data = self.rng.choice([entry for entry in self.logs if entry[0].startswith("session.v")])
        newer = path.with_name(name)
        if newer not in self.whole and path.is_relative_to(self.roots[0]):
            self.whole[newer] = data
            put(newer, data)

    def is_copied(self, path: Path) -> None:
        copy = self.roots[1] / path.relative_to(self.roots[0]) if path.is_relative_to(self.roots[0]) else path
        if path.exists() and copy != path:
            self.whole[copy] = self.whole[path]
            put(copy, path.read_bytes())

    def has_a_neighbour(self, path: Path) -> None:
        """A file that is no log, then perhaps one, outside all session folders."""
        name, data = self.rng.choice(
            [("notes.jsonl", b"# notes\n"), ("notes.jsonl", b""), ("notes.jsonl", self.logs[-1][1])]
        )
        put(self.roots[0] / name, data)

    def is_exported(self, path: Path) -> None:
        archive = self.roots[0] / "dsh-session-x.zip"
        if path.exists():
            with zipfile.ZipFile(archive, "w") as file:
                file.writestr(path.name, path.read_bytes())
            put(archive, archive.read_bytes())

    def is_built(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sources = self.rng.choice([self.roots, self.roots, self.roots[:1], self.roots[1:]])
        words = self.rng.choice([(), (), (), (), ("--full",), ("--purge-missing",), ("--max-line", "300")])
        if self.rng.random() < 0.1:
            monkeypatch.setattr(tables, "PARSER_VERSION", tables.PARSER_VERSION + 1)
            self.said.append("another parser")
        self.said.append(f"build {[source.name for source in sources]} {words}")
        ingest(self.lake, *sources, *words)


HAPPENINGS: list[Callable[[History, Path], None]] = [
    *[History.grows] * 6,
    *[History.rests] * 3,
    *[History.is_deleted, History.is_whole, History.is_repaired] * 2,
    History.is_rewritten,
    History.is_truncated,
    History.is_empty,
    History.is_migrated,
    History.is_copied,
    History.has_a_neighbour,
    History.is_exported,
]


def lived(folder: Path, seed: int, logs: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch) -> History:
    """A history of some steps with builds between, the last one of all there is."""
    history = History(folder, seed, logs)
    for _ in range(history.rng.randint(2, 6)):
        history.step()
        history.is_built(monkeypatch)
    ingest(history.lake, *history.roots, "--purge-missing")
    return history


@pytest.mark.parametrize("seed", range(10 * HISTORIES))
def test_any_history_gives_the_rows_of_a_fresh_lake(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse_parts, "MOST_SMALL_PARTS", 3)
    history = lived(tmp_path, seed, pool(), monkeypatch)
    print(*history.said, sep="\n")
    assert_as_fresh(history.lake, *history.roots)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_any_history_gives_the_marts_of_a_fresh_lake(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = lived(tmp_path, 1000 + seed, pool(), monkeypatch)
    print(*history.said, sep="\n")
    assert_as_fresh(history.lake, *history.roots, with_marts=True)


@pytest.mark.parametrize("seed", range(4 * HISTORIES))
def test_any_history_of_official_logs(seed: int, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [json.loads(line) for line in (corpus / "index.jsonl").read_text().splitlines()]
    paths = [corpus / entry["name"] / entry["file"] for entry in known]
    logs = [(path.name, path.read_bytes()) for path in paths if path.stat().st_size < 40_000]
    history = lived(tmp_path, 2000 + seed, logs, monkeypatch)
    print(*history.said, sep="\n")
    assert_as_fresh(history.lake, *history.roots)


# What is opened.


AUDIT = """
import sys
opened = []
def hook(event, args):
    if event == "open" and isinstance(args[0], str):
        opened.append(args[0])
sys.addaudithook(hook)
from turnlake.cli import main
code = main(sys.argv[1:])
heavy = {"pyarrow", "duckdb", "polars"} & sys.modules.keys()
print(*heavy, *opened, sep="\\n", file=sys.stderr)
raise SystemExit(code)
"""


def test_nothing_changed_nothing_opened(root: Path, lake: Path) -> None:
    """In a process of its own, with a hook below every `open` of Python; what opens beside Python is not loaded."""
    for version in (0, 4):
        session = Session(version, id=f"s{version}").turn()
        log(root, session.raw, file_name(version), f"s{version}")
        log(root, as_zstd(session.lines) + b"\x28\xb5", file_name(version, "zstd"), f"z{version}")
    log(root, b"", session="empty")
    log(root, b"{}\n" * 3, session="refused")
    put(root / "notes.jsonl", b"# notes\n")
    build(lake, root)
    command = [sys.executable, "-c", AUDIT, "build", str(root), "--lake", str(lake), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, json.loads(done.stdout)["logs_read"], json.loads(done.stdout)["logs_unchanged"]) == (
        0,
        0,
        6,
    )
    opened = done.stderr.splitlines()
    assert not {"pyarrow", "duckdb", "polars"} & set(opened)
    assert any(name.endswith("loads.jsonl") for name in opened)
    assert [name for name in opened if str(root) in name or name.endswith((".parquet", ".duckdb"))] == []


class Counted:
    """A log's file that counts what is read of it."""

    def __init__(self, file: Any, counts: list[int]) -> None:
        self._file, self._counts = file, counts

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self._counts.append(len(data))
        return data


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each reading of a log, by the reader and for fingerprints."""
    counts: list[int] = []
    open_log, pread = container.open_log, os.pread

    def counted(*place: Any) -> bytes:
        counts.append(len(data := pread(*place)))
        return data

    for module in (manifest, convert):
        monkeypatch.setattr(module, "open_log", lambda *place: Counted(open_log(*place), counts))
    monkeypatch.setattr(container.os, "pread", counted)
    return counts


@pytest.mark.parametrize("container_name", ["raw", "zstd"])
def test_of_a_log_that_grew_only_what_is_new_is_read(
    container_name: str, root: Path, lake: Path, counts: list[int]
) -> None:
    session = Session(4)
    for number in range(60):
        session.turn(f"words {number}" * 40)
    store = as_raw if container_name == "raw" else lambda lines: as_zstd(lines, [1] * len(lines))
    old = store(session.lines)
    lines = len(session.lines)
    new = old + (
        as_raw(session.turn().lines[lines:]) if container_name == "raw" else frame(as_raw(session.turn().lines[lines:]))
    )
    name = file_name(4, container_name)
    log(root, old, name)
    ingest(lake, root)
    counts.clear()
    log(root, new, name)
    assert whys(ingest(lake, root)) == {"s1": "grown"}
    prints = 4 * manifest.PRINT_BYTES
    assert len(new) - len(old) <= sum(counts) - prints <= 2 * (len(new) - len(old)) + 100
    assert sum(counts) < len(old)
    assert_as_fresh(lake, root)


def test_the_fingerprint_fills_no_buffer(tmp_path: Path) -> None:
    path = put(tmp_path / "x", bytes(3 << 20))
    with container.open_regular(str(path)) as file:
        manifest.fingerprint(file, manifest.Mark(2 << 20))
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 0


def test_copies_that_rest_are_not_compared_again(
    root: Path, tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(4).turn()
    for place in (root, tmp_path / "backup"):
        log(place, session.raw)
    other = Session(4, id="other")
    log(root, other.turn().raw, session="other")
    sources = (root, tmp_path / "backup")
    ingest(lake, *sources)
    log(root, other.turn().raw, session="other")
    with monkeypatch.context() as patch:
        patch.setattr(copies, "durable_lines_of", lambda log: pytest.fail(f"{log.place} was opened"))
        ingest(lake, *sources)
    log(root, session.turn().raw)
    log(tmp_path / "backup", Session(4).turn("other", "words").turn().raw)
    ingest(lake, *sources)
    assert_as_fresh(lake, *sources)
    assert {row["superseded_why"] for row in stored(lake, "logs")} == {None, "diverged_copy"}


# One thing after another: what happened to a log, and why it was read.


def superseded(lake: Path) -> dict[str, str | None]:
    return {row["path"]: row["superseded_why"] for row in stored(lake, "logs")}


def test_the_harness_repairs_its_torn_end(root: Path, lake: Path) -> None:
    """It cuts the torn frame off and writes its rows again: they count once, and as they are now."""
    session = Session(4).turn()
    whole, count = as_zstd(session.lines), len(session.lines)
    torn = frame(as_raw(session.turn("first words").lines[count:]))
    log(root, whole + torn[:-2], "session.v4.jsonl.zstd")
    ingest(lake, root)
    assert any(row["is_provisional"] for row in stored(lake, "events"))
    again = Session(4).turn().turn("second words").turn()
    log(root, whole + frame(as_raw(again.lines[count:])), "session.v4.jsonl.zstd")
    load = ingest(lake, root)
    assert (whys(load), load["logs_read"]) == ({"s1": "grown"}, 1)
    payloads = [row["payload"] for row in stored(lake, "events")]
    assert (len(payloads), sum("first words" in text for text in payloads)) == (18, 0)
    assert_as_fresh(lake, root, with_marts=True)


def test_a_torn_end_cut_off_without_anything_new(root: Path, lake: Path) -> None:
    session = Session(4).turn()
    whole = as_zstd(session.lines)
    log(root, whole + frame(b'{"type":"x"}\n' * 50)[:-3], "session.v4.jsonl.zstd")
    ingest(lake, root)
    log(root, whole, "session.v4.jsonl.zstd")
    assert whys(ingest(lake, root)) == {"s1": "changed"}
    assert_as_fresh(lake, root)


NOTE = dumps({"type": "session/title", "seq": 6, "time": 5, "data": {"title": "\ud83d"}})
UNKNOWN = dumps({"type": "x/new", "seq": 6, "time": 5, "data": {}})

SHORT, LONG = Session(4).turn().lines, Session(4).turn().turn().lines
RAW, ZSTD = "session.v4.jsonl", "session.v4.jsonl.zstd"

# Name, first content, what is added, why it is read again then.
GROWING: dict[str, tuple[str, bytes, bytes, str]] = {
    "a lone surrogate": (RAW, as_raw([*SHORT, NOTE]), as_raw([NOTE]), "grown"),
    "unread lines": (RAW, as_raw([*SHORT, b"{"]), b"{\n{\n", "changed"),
    "refused": (RAW, as_raw([*SHORT, UNKNOWN]), as_raw([UNKNOWN]), "grown"),
    "branches": (RAW, as_raw([*SHORT, *SHORT[1:]]), as_raw(LONG[1:]), "grown"),
    "a name of another version": ("session.v3.jsonl", as_raw(SHORT), as_raw(SHORT[1:]), "changed"),
    "never born": (RAW, b"", as_raw(SHORT), "grown"),
    "half a header": (RAW, as_raw(SHORT)[:20], as_raw(SHORT)[20:], "grown"),
    "half a header frame": (ZSTD, as_zstd(SHORT)[:20], as_zstd(SHORT)[20:], "grown"),
    "without header": (RAW, as_raw(SHORT[1:4]), as_raw(SHORT[4:]), "grown"),
    "a tutorial": ("notes.jsonl", as_raw(SHORT[1:4]), as_raw(SHORT[4:]), "grown"),
    "no log yet": ("notes.jsonl", b"", as_raw(SHORT), "changed"),
    "a damaged frame": (ZSTD, as_zstd(SHORT) + b"garbage", frame(b"{}\n"), "changed"),
}


@pytest.mark.parametrize("kind", GROWING)
def test_it_grows_in_three_steps(kind: str, root: Path, lake: Path) -> None:
    name, start, more, why = GROWING[kind]
    log(root, start, name)
    ingest(lake, root)
    log(root, start + more[: len(more) // 2], name)
    load = ingest(lake, root)
    assert_as_fresh(lake, root)
    assert list(whys(load).values()) == [why]
    log(root, start + more, name)
    ingest(lake, root)
    assert_as_fresh(lake, root)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "shrinks to nothing": lambda path: put(path, b""),
    "another header": lambda path: put(path, Session(4, cwd="/elsewhere").turn().turn().turn().raw),
    "another id, as long": lambda path: put(path, Session(4, id="s2").turn().turn().raw),
    "truncated": lambda path: put(path, path.read_bytes()[:-200]),
    "touched": lambda path: put(path, path.read_bytes()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_no_growth_is_read_again(change: str, root: Path, lake: Path) -> None:
    path = log(root, Session(4).turn().turn().raw)
    ingest(lake, root)
    CHANGES[change](path)
    assert whys(ingest(lake, root)) == {"s1": "changed"}
    assert_as_fresh(lake, root, with_marts=True)


def test_it_is_deleted_and_comes_back(root: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = log(root, Session(4).turn().raw), Session(4).turn().raw
    log(root, Session(4, id="other").turn().raw, session="other")
    build(lake, root)
    before, stat = contents(lake), path.stat()
    path.unlink()
    capsys.readouterr()
    assert build(lake, root)["logs_read"] == 0
    assert "1 deleted since" in capsys.readouterr().out
    assert [row["is_missing"] for row in stored(lake, "logs")] == [False, True]
    assert contents(lake)["events"] == before["events"]
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert build(lake, root)["logs_read"] == 0
    assert contents(lake) == before
    path.unlink()
    build(lake, root)
    build(lake, root, "--purge-missing")
    assert_as_fresh(lake, root, with_marts=True)


def test_a_newer_generation_appears_and_the_old_one_goes(root: Path, lake: Path) -> None:
    old = log(root, Session(3).turn().raw, "session.v3.jsonl")
    ingest(lake, root)
    log(root, Session(4).turn().turn().raw)
    assert whys(ingest(lake, root)) == {"s1": "new"}
    assert_as_fresh(lake, root, with_marts=True)
    old.unlink()
    build(lake, root)
    assert set(superseded(lake).values()) == {None, "generation"}


def test_a_session_moves_to_another_folder_and_grows(root: Path, lake: Path) -> None:
    path = log(root, Session(4).turn().raw)
    build(lake, root)
    path.unlink()
    log(root, Session(4).turn().turn().raw, session="moved")
    build(lake, root)
    assert superseded(lake) == {"--w--/moved/session.v4.jsonl": None, "--w--/s1/session.v4.jsonl": "copy"}
    with connect(lake) as db:
        assert db.execute("select session_id, turn_count from marts.sessions").fetchall() == [("s1", 2)]


def export(root: Path, data: bytes) -> Path:
    archive = root / "dsh-session-x.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("session.v4.jsonl", data)
    return put(archive, archive.read_bytes())


def test_an_export_that_is_written_again(root: Path, lake: Path) -> None:
    export(root, Session(4).turn().raw)
    ingest(lake, root)
    assert ingest(lake, root)["logs_read"] == 0
    export(root, Session(4).turn().turn().raw)
    assert list(whys(ingest(lake, root)).values()) == ["changed"]
    assert_as_fresh(lake, root)


def test_a_source_that_is_not_named_keeps_its_logs(root: Path, tmp_path: Path, lake: Path) -> None:
    log(root, Session(4).turn().raw)
    other = tmp_path / "other"
    log(other, Session(4, id="s2").turn().raw, session="s2")
    build(lake, root, other)
    before = contents(lake)
    assert build(lake, root)["logs_seen"] == 1
    assert contents(lake) == before
    log(root, Session(4).turn().turn().raw)
    assert build(lake, root)["logs_seen"] == 1
    assert len(contents(lake)["events"]) == len(before["events"]) + 6
    assert not any(row["is_missing"] for row in stored(lake, "logs"))


def test_a_source_that_is_not_mounted_is_named_and_nothing_goes(
    root: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(root, Session(4).turn().raw)
    build(lake, root)
    before = contents(lake)
    root.rename(root.with_name("elsewhere"))
    assert main(["build", str(root), "--lake", str(lake), "--purge-missing"]) == 2
    assert str(root) in capsys.readouterr().err
    assert contents(lake) == before
    root.mkdir()
    build(lake, root)
    assert [row["is_missing"] for row in stored(lake, "logs")] == [True]
    assert "1 deleted since" in capsys.readouterr().out


def test_nothing_is_missing_from_a_folder_that_cannot_be_listed(
    root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(root, Session(4).turn().raw)
    ingest(lake, root)
    scandir = os.scandir

    def refuse(path: Any) -> Iterator[Any]:
        if str(path).endswith("s1"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    ingest(lake, root, "--purge-missing")
    assert [row["is_missing"] for row in stored(lake, "logs")] == [False]


# What was mended: each of these once gave another lake than a fresh one.


def closed(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def refuse(*_: Any) -> Any:
        raise error

    for module in (manifest, convert):
        monkeypatch.setattr(module, "open_log", refuse)


def test_a_log_that_could_not_be_opened_is_read_as_soon_as_it_can(root: Path, lake: Path) -> None:
    """Permissions change neither size nor modification time."""
    log(root, Session(4).turn().raw)
    with pytest.MonkeyPatch.context() as patch:
        closed(patch, PermissionError(13, "Permission denied"))
        ingest(lake, root)
        assert ingest(lake, root)["logs_read"] == 0
        assert [row["verdict_reason"] for row in stored(lake, "logs")] == ["unreadable"]
    assert whys(ingest(lake, root)) == {"s1": "returned"}
    assert ingest(lake, root)["logs_read"] == 0
    assert_as_fresh(lake, root)


def delete(path: Path, log: LogFile) -> str:
    """Stands for asking how a log is stored."""
    if log.os_path == str(path):
        path.unlink()
    return "raw"


def test_a_log_deleted_while_the_build_runs_stays_as_it_was(root: Path, lake: Path) -> None:
    for grown in (Session(4).turn().turn().raw, Session(4, cwd="/else").turn().turn().turn().raw):
        log(root, Session(4).turn().raw)
        log(root, Session(4, id="s2").turn().raw, session="s2")
        ingest(lake, root, "--full")
        before = contents(lake)["events"]
        path = log(root, grown)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(manifest, "open_log", container.open_log)
            patch.setattr(convert, "container_of", functools.partial(delete, path))
            ingest(lake, root)
        assert contents(lake)["events"] == before
        assert [(row["is_missing"], row["header_id"]) for row in stored(lake, "logs")] == [(True, "s1"), (False, "s2")]
        ingest(lake, root, "--purge-missing")
        assert_as_fresh(lake, root)


def test_a_file_that_is_no_log_is_named_once_and_then_no_more(root: Path, lake: Path) -> None:
    for data in (b"# notes\n", b"# other notes\n", Session(4).turn().raw, b"# notes\n", None):
        path = put(root / "--w--" / "notes.jsonl", data or b"")
        if data is None:
            path.unlink()
        ingest(lake, root)
        assert_as_fresh(lake, root)


def test_provisional_rows_carried_over_a_parser_change_go_when_the_log_grows(
    root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(4).turn()
    whole, count = as_zstd(session.lines), len(session.lines)
    rest = frame(as_raw(session.turn().lines[count:]))
    path = log(root, whole + rest[:-2], "session.v4.jsonl.zstd")
    ingest(lake, root)
    assert any(row["is_provisional"] for row in stored(lake, "events"))
    path.unlink()
    monkeypatch.setattr(tables, "PARSER_VERSION", tables.PARSER_VERSION + 1)
    before = contents(lake)["events"]
    ingest(lake, root)
    assert contents(lake)["events"] == before
    log(root, whole + rest, "session.v4.jsonl.zstd")
    assert whys(ingest(lake, root)) == {"s1": "returned"}
    assert_as_fresh(lake, root)


def test_a_parser_change_reaches_sources_that_were_not_named(
    root: Path, tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(root, Session(4).turn().raw)
    other = tmp_path / "other"
    log(other, Session(4, id="s2").turn().raw, session="s2")
    ingest(lake, root, other)
    monkeypatch.setattr(tables, "PARSER_VERSION", tables.PARSER_VERSION + 1)
    assert whys(ingest(lake, root)) == {"s1": "parser"}
    assert whys(ingest(lake, root, other)) == {"s2": "returned"}
    assert_as_fresh(lake, root, other)


def test_another_longest_line_reads_again(root: Path, lake: Path) -> None:
    log(root, Session(4).turn("long words " * 100).raw)
    ingest(lake, root, "--max-line", "600")
    assert whys(ingest(lake, root)) == {"s1": "options"}
    assert_as_fresh(lake, root)


def test_parts_beyond_the_hundred_thousandth(root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(4)
    log(root, session.turn().raw)
    with monkeypatch.context() as patch:
        patch.setattr("turnlake.lake.ingest.part_after", lambda names: 99_999)
        ingest(lake, root)
    for _ in range(3):
        log(root, session.turn().raw)
        ingest(lake, root)
    assert_as_fresh(lake, root)


def test_a_bomb_that_grows_frame_by_frame(root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BOMB_FLOOR", 3000)
    monkeypatch.setattr(frames, "BOMB_RATIO", 1)
    session = Session(4)
    for _ in range(12):
        session.turn("x" * 60)
    data = as_zstd(session.lines, [4] * 18)
    for end in range(0, len(data) + 250, 250):
        log(root, data[:end], "session.v4.jsonl.zstd")
        ingest(lake, root)
    assert [row["verdict_reason"] for row in stored(lake, "logs")] == ["corrupt"]
    assert_as_fresh(lake, root)


def test_many_small_parts_become_one(root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse_parts, "MOST_SMALL_PARTS", 4)
    session = Session(4)
    for _ in range(reuse_parts.MOST_SMALL_PARTS + 3):
        log(root, session.turn().raw)
        ingest(lake, root)
    assert len(current(lake).part_files("events")) < 6
    assert_as_fresh(lake, root)


def test_the_summary_is_that_of_the_database_in_place(
    root: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session(4)
    log(root, session.turn().raw)
    build(lake, root)
    log(root, session.turn().raw)
    ingest(lake, root)
    assert main(["model", "--lake", str(lake), "-q"]) == 0
    capsys.readouterr()
    assert main(["build", str(root), "--lake", str(lake), "--json", *OPTIONS]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"]["turn_count"] == 2


# Formats of the lake, and what is told of each run.


def as_in_format_1(state: State) -> None:
    """Writes the manifest of a state as format 1 did: a list of fields for each log."""
    stored = dict(state.manifest())
    columns = stored["logs"]
    rows = zip(*(columns[name] for name in manifest.Known._fields), strict=True)
    stored["logs"] = dict(zip(columns["log_id"], rows, strict=True))
    stored["due"] = stored.pop("to_reread")
    (state.path / "manifest.json").write_text(json.dumps(stored))


@pytest.mark.parametrize("has_old_manifest", [False, True])
def test_a_lake_of_an_older_format_is_made_anew(has_old_manifest: bool, root: Path, lake: Path) -> None:
    log(root, Session(4).turn().raw)
    gone = log(root, Session(4, id="gone").turn().raw, session="gone")
    build(lake, root)
    before = contents(lake)["events"]
    gone.unlink()
    if has_old_manifest:
        as_in_format_1(current(lake))
    (lake / "format").write_text("0\n")
    assert whys(build(lake, root)) == {"s1": "parser"}
    assert (lake / "format").read_text() == f"{tables.LAKE_FORMAT}\n"
    assert contents(lake)["events"] == before
    assert build(lake, root)["logs_read"] == 0


def test_a_lake_of_a_newer_format_is_left_alone(root: Path, lake: Path, turnlake: Run) -> None:
    log(root, Session(4).turn().raw)
    build(lake, root)
    (lake / "format").write_text("99\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*") if path.name != ".lock")
    done = turnlake("build", str(root), "--lake", str(lake))
    assert (done.returncode, "format 99" in done.stderr) == (2, True)
    assert sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*") if path.name != ".lock") == before


def test_each_run_is_told(root: Path, lake: Path) -> None:
    session = Session(4)
    log(root, session.turn().raw)
    build(lake, root)
    log(root, session.turn().raw)
    build(lake, root)
    build(lake, root)
    build(lake, root, "--full")
    with connect(lake) as db:
        told = db.execute(
            "select command, logs_seen, logs_read, logs_unchanged, events_added, read::json->>'$[0].why' "
            "from raw.loads order by started_at"
        ).fetchall()
    assert told == [
        ("build", 1, 1, 0, 6, "new"),
        ("build", 1, 1, 0, 6, "grown"),
        ("build", 1, 0, 1, 0, None),
        ("build", 1, 1, 0, 0, "full"),
    ]
