"""Only what is new is read, and the lake is the same as if everything had been: rows, marts, and what is opened."""

from __future__ import annotations

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
from logs import Session, as_raw, as_zstd, dumps, file_name, frame, header, write
from test_ingest import LOGS
from turnlake.api import connect
from turnlake.cli import main
from turnlake.logs import container, frames
from turnlake.parquet import carry, checkpoints, convert, tables
from turnlake.parquet import ingest as ingest_module
from turnlake.parquet.state import Lake, State

Row = dict[str, Any]
Contents = dict[str, list[str]]

# Random histories of each kind; TURNLAKE_HISTORIES=200 looks longer.
HISTORIES = int(os.environ.get("TURNLAKE_HISTORIES", "6"))
OPTIONS = ("--workers", "1", "-q")


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
        data = next(data for name, data in iter(self.drawn, None) if name.endswith("zstd") == path.name.endswith("zstd"))
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
        name, data = self.rng.choice([("notes.jsonl", b"# notes\n"), ("notes.jsonl", b""), ("notes.jsonl", self.logs[-1][1])])
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
def test_any_history_gives_the_rows_of_a_fresh_lake(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "MOST_SMALL_PARTS", 3)
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
def test_any_history_of_official_logs(
    seed: int, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [json.loads(line) for line in (corpus / "index.jsonl").read_text().splitlines()]
    paths = [corpus / entry["name"] / entry["file"] for entry in known]
    logs = [(path.name, path.read_bytes()) for path in paths if path.stat().st_size < 40_000]
    history = lived(tmp_path, 2000 + seed, logs, monkeypatch)
    print(*history.said, sep="\n")
    assert_as_fresh(history.lake, *history.roots)
