"""`build` and `ingest` from end to end: the sample, temporary roots, exit codes, and builds that meet or die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from conftest import Run
from lakes import rows
from logs import VERSIONS, Session, as_zstd, file_name, write
from turnlake.api import connect
from turnlake.cli import main
from turnlake.lake.state import Lake
from turnlake.sources.container import open_log
from turnlake.sources.logfile import LogFile

Row = dict[str, Any]
ONE_WORKER = ("--workers", "1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A sessions root with a clean log of each format."""
    for version in VERSIONS:
        session = Session(version, id=f"s{version}").turn().turn_with_call()
        write(tmp_path / "root", session.raw, file_name(version), f"s{version}")
    return tmp_path / "root"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def build(root: Path, lake: Path, *words: str) -> int:
    return main(["build", str(root), "--lake", str(lake), *ONE_WORKER, *words])


def ingest(root: Path, lake: Path, *words: str) -> int:
    return main(["ingest", str(root), "--lake", str(lake), *ONE_WORKER, *words])


def stored(lake: Path, table: str) -> list[Row]:
    """The rows of a raw table in the newest state, published or not."""
    state = Lake(lake).current()
    assert state is not None
    return [row for path in state.part_files(table) for row in pq.read_table(path).to_pylist()]


def query(lake: Path, sql: str) -> list[Row]:
    with connect(lake) as db:
        return rows(db, sql)


def test_the_sample(sample: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(sample, lake) == 0
    text = capsys.readouterr().out
    assert text.startswith("logs ") and "sessions" in text and "tokens" in text and str(lake) in text
    [counts] = query(lake, "select count(*) as logs, count_if(verdict is null) as unjudged from raw.logs")
    assert counts["logs"] > 10 and counts["unjudged"] == 0
    assert query(lake, "from marts.sessions") and query(lake, "from marts.turns")


def test_what_json_says(root: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(root, lake, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    expected = {"logs_seen": 5, "logs_read": 5, "logs_unchanged": 0, "logs_refused": 0, "events_added": 96}
    assert {name: summary[name] for name in expected} == expected
    assert summary["logs"]["counted"] == 5 and summary["logs"]["refused_logs"] == []
    sessions = summary["sessions"]
    assert (sessions["session_count"], sessions["turn_count"], sessions["attempt_count"]) == (5, 10, 10)
    assert (sessions["input_tokens"], sessions["output_tokens"], sessions["total_tokens"]) == (80, 20, 100)
    assert sessions["cache_read_tokens"] is None
    assert summary["turns_by_state"] == {"completed": 10}
    assert summary["lake"] == str(lake)


def test_counts_are_never_null(root: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(root, lake, "--json")
    sessions = json.loads(capsys.readouterr().out)["sessions"]
    assert {name: value for name, value in sessions.items() if name.endswith("_count") and value is None} == {}


def test_a_plain_glob_holds_the_same_rows(root: Path, lake: Path) -> None:
    build(root, lake)
    for table in ("logs", "events", "chunk_runs", "findings"):
        [by_glob] = query(lake, f"select count(*) as n from read_parquet('{lake.absolute()}/{table}/*.parquet')")
        # The view of runs shows the records of embedded streams too, which their events hold.
        stored = "where form <> 'stream'" if table == "chunk_runs" else ""
        [by_view] = query(lake, f"select count(*) as n from raw.{table} {stored}")
        assert by_glob == by_view


def test_ingest_alone_leaves_the_database(root: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", str(root), "--lake", str(lake), *ONE_WORKER, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["logs_read"] == 5
    assert not (lake / "turnlake.duckdb").exists()
    assert main(["model", "--lake", str(lake), "-q"]) == 0
    assert len(query(lake, "from raw.logs")) == 5


def test_the_same_logs_give_the_same_state(root: Path, lake: Path) -> None:
    ingest(root, lake)
    states = sorted(path.name for path in (lake / ".states").iterdir())
    ingest(root, lake)
    assert sorted(path.name for path in (lake / ".states").iterdir()) == states


def test_a_log_that_grew_is_read_whole_once(tmp_path: Path, lake: Path) -> None:
    session = Session(4).turn()
    path = write(tmp_path / "root", session.raw + b'{"type":"turn/st')
    ingest(tmp_path / "root", lake)
    [before] = stored(lake, "logs")
    path.write_bytes(session.turn().raw)
    ingest(tmp_path / "root", lake)
    [after] = stored(lake, "logs")
    assert (before["event_count"], before["is_torn"]) == (6, True)
    assert (after["event_count"], after["is_torn"]) == (12, False)
    assert len(stored(lake, "events")) == 12


def test_machines_and_copies(tmp_path: Path, lake: Path) -> None:
    for machine in ("a", "b"):
        write(tmp_path / machine, Session(4).turn().raw)
    words = [f"{machine}={tmp_path / machine}" for machine in ("a", "b")]
    assert main(["build", *words, "--lake", str(lake), *ONE_WORKER]) == 0
    logs = query(lake, "select machine, source, superseded_why from raw.logs order by source")
    assert logs == [
        {"machine": "a", "source": "a", "superseded_why": None},
        {"machine": "b", "source": "b", "superseded_why": "copy"},
    ]
    assert len(query(lake, "from marts.turns")) == 1


# What is partial: refused, torn, dropped or unread, but never the exit code unless --strict asks for it.
PARTIAL = {
    "refused": Session(4).turn().line({"type": "x/new", "seq": 6, "time": 1, "data": {}}).raw,
    "unread line": Session(4).turn().line(b"{").raw,
    "torn": Session(4).turn().raw + b"{",
    "gap": Session(4).turn().line({"type": "todo/write", "seq": 9, "time": 1, "data": {}}).raw,
    "unknown version": Session(4, version=5).raw,
    "empty": b"",
}


@pytest.mark.parametrize("name", PARTIAL)
def test_what_is_partial_is_0_and_with_strict_1(name: str, tmp_path: Path, lake: Path) -> None:
    write(tmp_path / "root", PARTIAL[name])
    assert ingest(tmp_path / "root", lake) == 0
    assert ingest(tmp_path / "root", lake, "--strict") == 1


def test_a_partial_build_is_0_and_with_strict_1(tmp_path: Path, lake: Path) -> None:
    write(tmp_path / "root", PARTIAL["refused"])
    assert build(tmp_path / "root", lake) == 0
    assert build(tmp_path / "root", lake, "--strict") == 1


def test_what_is_whole_is_0_with_strict(root: Path, lake: Path) -> None:
    assert build(root, lake, "--strict") == 0


def test_an_unread_log_is_named(tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "root", Session(4, version=5).raw)
    write(tmp_path / "root", PARTIAL["refused"].replace(b'"id":"s1"', b'"id":"s2"'), session="s2")
    build(tmp_path / "root", lake)
    text = capsys.readouterr().out
    assert "s1/session.v4.jsonl" in text and "unknown_version; nothing was read" in text
    assert "s2/session.v4.jsonl" in text and "unknown_type; what can be read counts" in text


def test_an_empty_root_is_fine(tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "root").mkdir()
    assert build(tmp_path / "root", lake) == 0
    assert query(lake, "from marts.turns") == []


def test_a_lock_that_is_closed_is_wrong_input(
    root: Path, lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("turnlake.lake.lock.open_private", refuse)
    assert build(root, lake) == 2
    assert f"the lake {lake} can't be used by this user: {lake / '.lock'}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["-q"], ["--json"]], ids=str)
def test_a_source_without_a_log_is_told_loudly(
    words: list[str], tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "root").mkdir()
    for _ in range(2):
        assert build(tmp_path / "root", lake, *words) == 0
        said = capsys.readouterr().err
        assert f"no log was found at {tmp_path / 'root'}: `turnlake doctor {tmp_path / 'root'}`" in said
    assert build(tmp_path / "root", lake, *words, "--again") == 0
    assert "no log was found" not in capsys.readouterr().err
    assert build(tmp_path / "root", lake, *words, "--strict") == 1


@pytest.mark.parametrize("name", ["README.md", "nolog.jsonl"])
def test_a_file_that_is_no_log_is_wrong_input(
    name: str, root: Path, tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text('{"a":1}\n' if name == "nolog.jsonl" else "# Hello\n")
    (tmp_path / "empty").mkdir()
    assert build(tmp_path / name, lake) == build(tmp_path / name, lake, str(tmp_path / "empty")) == 2
    assert f"{tmp_path / name} is no log" in capsys.readouterr().err
    assert not lake.exists()
    assert build(tmp_path / name, lake, str(root)) == 0
    assert f"no log was found at {tmp_path / name}" in capsys.readouterr().err
    assert build(tmp_path / name, lake) == 0


def test_logs_of_sources_not_named_now_are_told(
    root: Path, tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "other", Session(4, id="x").turn().raw, session="x")
    assert build(root, lake) == 0
    assert "also" not in capsys.readouterr().out
    for _ in range(2):
        assert build(tmp_path / "other", lake) == 0
        assert f"also      5 logs of {root}, which this build did not look at\n" in capsys.readouterr().out
    assert build(tmp_path / "other", lake, "--json") == 0
    assert json.loads(capsys.readouterr().out)["other_sources"] == {str(root): 5}
    assert ingest(tmp_path / "other", lake) == 0
    assert f"also 5 logs of {root}, which" in capsys.readouterr().out
    assert build(root, lake, str(tmp_path / "other")) == 0
    assert "also" not in capsys.readouterr().out


@pytest.mark.parametrize("act", [build, ingest])
def test_quiet_and_strict_say_in_one_line_what_is_partial(
    act: Any, tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "root", PARTIAL["refused"])
    assert act(tmp_path / "root", lake, "-q", "--strict") == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("turnlake: partial: 1 log refused") and said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/nowhere/at/all"], "No such file"),
        ([""], "SOURCE is blank"),
        (["--workers", "0"], "--workers"),
        (["--memory", "1kb"], "give 100MB or more"),
        (["--workers", "x"], "--workers"),
        (["--max-line", "x"], "--max-line"),
        (["--max-line", "0"], "--max-line"),
        (["--max-line", "-1"], "--max-line"),
        (["--fulll"], "--full"),
    ],
    ids=str,
)
def test_wrong_usage_is_2_and_one_line(
    words: list[str], message: str, root: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [] if words[0] in ("", "/nowhere/at/all") else [str(root)]
    assert main(["build", *sources, *words, "--lake", str(lake)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and message in said.err and said.err.count("\n") == 1
    assert not lake.exists()


def test_without_a_source_the_harness_home_is_read(root: Path, lake: Path, turnlake: Run) -> None:
    home = root.parent / "home"
    home.mkdir()
    root.rename(home / "sessions")
    done = turnlake("ingest", "--lake", str(lake), "--json", DSH_HOME=str(home))
    assert (done.returncode, json.loads(done.stdout)["logs_read"]) == (0, 5)
    done = turnlake("build", "--lake", str(lake), DSH_HOME=str(root.parent / "elsewhere"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "DSH_HOME" in done.stderr


def test_stdout_holds_one_json_document_and_quiet_is_quiet(root: Path, lake: Path, turnlake: Run) -> None:
    done = turnlake("build", str(root), "--lake", str(lake), "--json", "--workers", "2", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["logs_read"] == 5


def test_links_that_turn_in_circles(root: Path, lake: Path) -> None:
    (root / "--w--" / "again").symlink_to(root)
    (root / "--w--" / "s4" / "session.v9.jsonl").symlink_to("session.v9.jsonl")
    assert build(root, lake) == 0
    assert len(query(lake, "from raw.logs")) == 5
    [finding] = query(lake, "from raw.findings where invariant is null")
    assert finding["code"] == "unreadable_file"


def test_a_log_as_source(root: Path, lake: Path) -> None:
    assert ingest(root / "--w--" / "s4" / "session.v4.jsonl", lake) == 0
    [log] = stored(lake, "logs")
    assert (log["path"], log["session_id"]) == ("session.v4.jsonl", "s4")


def test_a_log_that_cannot_be_opened(root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(log: LogFile, max_line: int) -> Any:
        if log.folder.endswith("s3"):
            raise PermissionError(13, "Permission denied", log.os_path)
        return open_log(log)

    monkeypatch.setattr("turnlake.lake.convert.open_log", refuse)
    assert build(root, lake) == 0
    unread = query(lake, "select path, verdict, verdict_reason, is_read, event_count from raw.logs where not is_read")
    place = {"path": "--w--/s3/session.v3.jsonl", "verdict": "refused", "verdict_reason": "unreadable"}
    assert unread == [place | {"is_read": False, "event_count": None}]
    [finding] = query(lake, "from raw.findings where invariant is null")
    assert finding["code"] == "unreadable_file" and "Permission denied" in finding["detail"]


def test_a_log_that_cannot_be_read_to_its_end(tmp_path: Path, lake: Path) -> None:
    """An export whose one entry is damaged: the checksum is wrong at the end, when the lines were read."""
    (tmp_path / "root").mkdir()
    path = tmp_path / "root" / "dsh-session-s1.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("session.v4.jsonl", Session(4).turn().raw)
    data = bytearray(path.read_bytes())
    data[data.index(b"Hello")] ^= 1
    path.write_bytes(data)
    assert build(tmp_path / "root", lake) == 0
    [log] = query(lake, "select verdict, verdict_reason, is_read, log_id from raw.logs")
    assert (log["verdict"], log["verdict_reason"]) == ("refused", "unreadable")
    [counts] = query(lake, "select count(*) as n from raw.events")
    assert log["is_read"] is (counts["n"] > 0)


def test_long_lines_are_left_out_on_demand(root: Path, lake: Path) -> None:
    assert ingest(root, lake, "--max-line", "400") == 0
    found = [row["line_count"] for row in stored(lake, "findings") if row["code"] == "unread_line"]
    assert sum(found) == sum(row["unread_line_count"] for row in stored(lake, "logs")) > 0


def test_file_names_are_only_names(tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["it's", "$(touch x)", "a;drop table logs", "new\nline", "\x1b[31mred", '"', "会话🐟", "%s", "*", "?"]
    for name in names:
        write(tmp_path / "ro'ot", PARTIAL["refused"], session=name)
    assert build(tmp_path / "ro'ot", tmp_path / "la'ke *") == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "new\nline" not in text
    assert len(query(tmp_path / "la'ke *", "from raw.logs")) == len(names)


# Builds that meet, and builds that die. `HOLD` makes a build stop before the function named, until it is let go on.

HOLD = """
import sys
from importlib import import_module
from turnlake.cli import main
place, *words = sys.argv[1:]
module, name = place.split(":")
module = import_module(module)
go_on = getattr(module, name)
def hold(*args, **options):
    print("held", flush=True)
    sys.stdin.readline()
    return go_on(*args, **options)
setattr(module, name, hold)
raise SystemExit(main(words))
"""


def held(place: str, root: Path, lake: Path) -> subprocess.Popen[str]:
    """A build that stops before a function, named as module:function."""
    words = ["build", str(root), "--lake", str(lake), *ONE_WORKER]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, place, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_of_two_builds_one_waits_or_is_refused(root: Path, lake: Path, turnlake: Run) -> None:
    first = held("turnlake.lake.ingest:ingest", root, lake)
    refused = turnlake("build", str(root), "--lake", str(lake), "--no-wait")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"another build is running (pid {first.pid})" in refused.stderr
    words = [sys.executable, "-m", "turnlake", "build", str(root), "--lake", str(lake), "--json"]
    second = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert second.stderr is not None and "waiting" in second.stderr.readline()
    assert second.poll() is None
    first.communicate("\n")
    out, _ = second.communicate(timeout=100)
    counts = json.loads(out)
    assert (first.returncode, second.returncode, counts["logs_read"], counts["logs_unchanged"]) == (0, 0, 0, 5)


def test_a_killed_build_leaves_the_old_state(root: Path, lake: Path) -> None:
    build(root, lake)
    before = query(lake, "from marts.turns order by all")
    write(root, Session(4, id="new").turn().raw, session="new")
    for step in ("lake.ingest:ingest", "commands.steps:append_load", "commands.steps:publish_models"):
        process = held(f"turnlake.{step}", root, lake)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert query(lake, "from marts.turns order by all") == before
    assert build(root, lake) == 0
    assert len(query(lake, "from marts.turns")) == len(before) + 1
    assert not [path.name for path in lake.iterdir() if path.name.startswith(".build")]


def test_a_build_killed_anywhere_leaves_a_whole_state(root: Path, lake: Path) -> None:
    build(root, lake)
    turns = len(query(lake, "from marts.turns"))
    write(root, Session(4, id="new").turn().raw, session="new")
    for delay in (0.25, 0.4, 0.6):
        words = [sys.executable, "-m", "turnlake", "build", str(root), "--lake", str(lake), "-q"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
        assert len(query(lake, "from marts.turns")) in (turns, turns + 1)
    assert build(root, lake) == 0
    assert len(query(lake, "from marts.turns")) == turns + 1
    assert Lake(lake).current() is not None


def test_a_build_that_fails_keeps_the_old_database(root: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(root, lake)
    before = query(lake, "from raw.logs order by all")
    (root / "--w--" / "s0" / "session.jsonl").unlink()

    def fail(*args: Any, **options: Any) -> Any:
        raise RuntimeError("disk full")

    monkeypatch.setattr("turnlake.models.build.build_database", fail)
    assert build(root, lake, "--full") == 3
    assert query(lake, "from raw.logs order by all") == before
    assert not [path.name for path in lake.iterdir() if path.name.startswith(".build")]


def test_a_compressed_root_gives_the_same_tables(root: Path, tmp_path: Path) -> None:
    for path in root.rglob("*.jsonl"):
        write(
            tmp_path / "packed", as_zstd(path.read_bytes().splitlines(), [1, 2]), path.name + ".zstd", path.parent.name
        )
    for name in ("root", "packed"):
        build(tmp_path / name, tmp_path / f"lake-{name}")
    columns = "select * exclude (source) from marts.sessions order by session_id"
    assert query(tmp_path / "lake-root", columns) == query(tmp_path / "lake-packed", columns)
