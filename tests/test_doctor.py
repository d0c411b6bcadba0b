"""The doctor: works with nothing there, tells what is wrong, changes nothing."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from logs import Session, write
from turnlake import cli
from turnlake.lake.loads import Load, append_load
from turnlake.lake.state import Lake
from turnlake.reports.doctor import _refused_rows, instant
from turnlake.reports.judged import RefusedLog
from turnlake.reports.lakehealth import lake_health
from turnlake.rows.tables import LAKE_FORMAT, TABLES
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of the user, so that nothing of this machine is looked at."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("DSH_HOME", raising=False)
    monkeypatch.delenv("TURNLAKE_LAKE", raising=False)
    return folder


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    (folder / "--p--" / "s1").mkdir(parents=True)
    (folder / "--p--" / "s1" / "session.v4.jsonl").write_bytes(b"12345\n")
    os.utime(folder / "--p--" / "s1" / "session.v4.jsonl", (1_700_000_000, 1_700_000_000))
    return folder


def examined(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["doctor", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def texts(report: dict[str, Any]) -> str:
    return "\n".join(f"{reason['severity']}: {reason['text']}" for reason in report["reasons"])


def tree(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*"))


def test_nothing_there(capsys: pytest.CaptureFixture[str], tmp_path: Path, home: Path) -> None:
    code, report = examined(capsys, "--lake", str(tmp_path / "lake"))
    assert code == 0
    assert [(place["origin"], place["is_used"], place["exists"]) for place in report["places"]] == [
        ("$DSH_HOME/sessions", False, False),
        ("~/.dsh/sessions", True, False),
    ]
    assert report["sources"] == report["logs"] == report["findings"] == []
    assert "which is not there" in texts(report) and "there is no lake" in texts(report)
    assert examined(capsys, "--strict", "--lake", str(tmp_path / "lake"))[0] == 1
    assert not (tmp_path / "lake").exists()


def test_logs_by_form(capsys: pytest.CaptureFixture[str], sessions: Path, tmp_path: Path) -> None:
    (sessions / "tutorial.jsonl").write_bytes(b'{"type":"turn/start","data":{"turn":1}}\n')
    (sessions / "notes.jsonl").write_bytes(b"{}\n")
    code, report = examined(capsys, f"lab={sessions}", "--lake", str(tmp_path / "lake"))
    assert code == 0
    assert [(group["source"], group["form"], group["log_count"], group["bytes"]) for group in report["logs"]] == [
        ("lab", "other name, raw", 1, 40),
        ("lab", "session.v4.jsonl", 1, 6),
    ]
    assert report["logs"][1]["newest_at"] == "2023-11-14T22:13:20Z"
    assert [finding["code"] for finding in report["findings"]] == ["flat_layout", "ignored_file"]


def test_default_place(capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path) -> None:
    (home / ".dsh" / "sessions").mkdir(parents=True)
    code, report = examined(capsys, "--lake", str(tmp_path / "lake"))
    assert code == 0
    assert [source["folder_count"] for source in report["sources"]] == [1]
    assert "no log was found in 1 folder at" in texts(report)


def test_source_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["doctor", str(tmp_path / "nowhere")]) == 2
    assert "can't be used" in capsys.readouterr().err


def test_error_needs_a_hand(capsys: pytest.CaptureFixture[str], sessions: Path, tmp_path: Path) -> None:
    (sessions / "dsh-session-x.zip").write_bytes(b"PK\x03\x04")
    code, report = examined(capsys, str(sessions), "--lake", str(tmp_path / "lake"))
    assert code == 1
    assert "error: 1 × archive_unreadable" in texts(report)


def test_log_without_permission(
    capsys: pytest.CaptureFixture[str], sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, report = examined(capsys, str(sessions), "--lake", str(tmp_path / "lake"))
    assert code == 1
    assert "error: 1 × unreadable_file" in texts(report)


def test_text_is_safe_to_print(capsys: pytest.CaptureFixture[str], sessions: Path, tmp_path: Path) -> None:
    for name in ("\x1b[31m.jsonl", "\nline.jsonl", os.fsdecode(b"\xff.jsonl"), *map("{}.jsonl".format, range(9))):
        (sessions / name).write_bytes(b"")
    assert cli.main(["doctor", str(sessions), "--lake", str(tmp_path / "lake")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\\x1b[31m.jsonl" in out and "\\nline.jsonl" in out
    assert "and 7 more" in out
    assert "Why a number may be zero" in out


@pytest.fixture
def lake(tmp_path: Path, sessions: Path) -> Lake:
    """A published lake that knows the log as it was read, and an attempt without usage and one without price."""
    lake = Lake(tmp_path / "it's a lake")
    [log] = find_logs([parse_source(str(sessions))]).logs
    with lake.lock():
        work = lake.work_dir()
        for name, table in TABLES.items():
            (work / name).mkdir()
            pq.write_table(table.schema().empty_table(), work / name / "part-00000.parquet")
        (work / "manifest.json").write_text(json.dumps({"logs": {log.log_id: ["part", log.size, log.mtime_ns]}}))
        state = lake.commit_state(work)
        with duckdb.connect(work / "new.duckdb") as connection:
            connection.execute("create schema raw; create schema marts")
            connection.execute(
                "create table raw.logs as select 's' as source, 'refused' as verdict, 'corrupt' as verdict_reason, "
                "true as is_read, 'p/s' as path, 7 as verdict_line, "
                "null::varchar as superseded_by, null::varchar as superseded_why, false as is_missing"
            )
            connection.execute(
                "create table marts.attempts as from (values ('none', 'unpriced', 'p', 'm'), "
                "('message', 'unpriced', 'p', '{m}')) as t(usage_source, price_source, provider, model)"
            )
        lake.publish(state, work / "new.duckdb")
        shutil.rmtree(work)
    return lake


def test_lake_that_is_ready(capsys: pytest.CaptureFixture[str], lake: Lake, sessions: Path) -> None:
    (lake.path / ".build-1").mkdir()
    before = tree(lake.path)
    code, report = examined(capsys, str(sessions), "--lake", str(lake.path))
    assert tree(lake.path) == before
    assert code == 0
    assert (report["lake"]["status"], report["lake"]["format"]) == ("ready", str(LAKE_FORMAT))
    assert report["lake"]["leftovers"] == [".build-1"]
    assert report["lake"]["database_bytes"] == lake.database.stat().st_size
    assert "warning: 1 log that the harness would refuse (corrupt)" in texts(report)
    assert "warning: 1 call without usable usage in the log (usage none)" in texts(report)
    assert "warning: 1 call without a price (p/{m})" in texts(report)
    assert "not in the lake" not in texts(report)


def test_refused_logs_of_the_lake_are_named(capsys: pytest.CaptureFixture[str], lake: Lake, sessions: Path) -> None:
    report = examined(capsys, str(sessions), "--lake", str(lake.path))[1]
    assert report["refused_logs"] == [{"source": "s", "path": "p/s", "reason": "corrupt", "line": 7, "is_read": True}]
    assert cli.main(["doctor", str(sessions), "--lake", str(lake.path)]) == 0
    assert re.search(r"^s/p/s +7 +corrupt +what can be read$", capsys.readouterr().out, re.MULTILINE)


def test_refused_logs_without_a_lake_are_read_and_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / "root", Session(4, version=9).raw, "session.v9.jsonl", f"r{number}")
    write(tmp_path / "root", Session(4).turn().raw)
    report = examined(capsys, str(tmp_path / "root"), "--lake", str(tmp_path / "none"))[1]
    found = [(log["path"], log["reason"], log["line"], log["is_read"]) for log in report["refused_logs"]]
    assert found == [(f"--w--/r{number}/session.v9.jsonl", "unknown_version", 1, False) for number in range(3)]
    assert "3 logs not in the lake yet that the harness would refuse" in texts(report)


def test_a_long_list_of_refused_logs_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    logs = tuple(RefusedLog("s", f"p/{number}", "corrupt", 1, True) for number in range(25))
    shown = list(_refused_rows(logs))
    assert len(shown) == 21 and shown[-1][0] == "and 5 more"


def test_a_file_that_is_no_log_is_not_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Hello\n")
    report = examined(capsys, str(tmp_path / "README.md"), "--lake", str(tmp_path / "lake"))[1]
    assert report["logs"] == [] and report["sources"][0]["log_count"] == 0
    assert "no log was found at" in texts(report)
    assert [finding["code"] for finding in report["findings"]] == ["ignored_file"]


def test_built_at_is_when_logs_were_read_last(capsys: pytest.CaptureFixture[str], lake: Lake) -> None:
    assert lake_health(lake.path).built_at is None
    append_load(lake, Load("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:05.000Z", "build", 0, 0, 0, 0, 0))
    append_load(lake, Load("2026-01-02T00:00:00.000Z", "2026-01-02T00:00:05.000Z", "build", 0, 0, 0, 0, 0))
    assert lake_health(lake.path).built_at == "2026-01-02T00:00:05.000Z"


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_moved_lake_gets_one_advice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sessions: Path, is_copy: bool
) -> None:
    write(tmp_path / "root", Session(4).turn().raw)
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    assert cli.main(["build", str(tmp_path / "root"), "--lake", here, "-q"]) == 0
    if is_copy:
        shutil.copytree(here, there, copy_function=shutil.copyfile)
    shutil.move(here, there if not is_copy else tmp_path / "away")
    capsys.readouterr()
    assert cli.main(["report", "--lake", there]) == 2
    said = capsys.readouterr().err
    assert f"was moved or copied: run `turnlake model --lake {there}`" in said and "configuration" not in said
    assert said.removeprefix("turnlake: ").strip() in texts(examined(capsys, "--lake", there)[1])
    assert cli.main(["model", "--lake", there, "-q"]) == cli.main(["report", "--lake", there]) == 0


def test_logs_the_lake_does_not_have(capsys: pytest.CaptureFixture[str], lake: Lake, sessions: Path) -> None:
    with (sessions / "--p--" / "s1" / "session.v4.jsonl").open("ab") as file:
        file.write(b"more\n")
    (sessions / "--p--" / "s1" / "session.jsonl").write_bytes(b"")
    report = examined(capsys, str(sessions), "--lake", str(lake.path))[1]
    assert "1 of 2 logs found not in the lake" in texts(report)
    assert "1 log written to since" in texts(report)


def test_lake_in_use(lake: Lake) -> None:
    (lake.path / ".build-12345").mkdir()
    with (lake.path / ".lock").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(b"12345")
        file.flush()
        health = lake_health(lake.path)
    assert (health.is_building, health.building_pid, health.leftovers) == (True, 12345, ())
    health = lake_health(lake.path)
    assert (health.is_building, health.building_pid, health.leftovers) == (False, None, (".build-12345",))


@pytest.mark.parametrize(
    ("content", "status", "word"),
    [(b"999\n", "unusable", "knows formats up to"), (b"x\n", "ready", ""), (b"0\n", "outdated", "")],
)
def test_lake_of_another_format(lake: Lake, content: bytes, status: str, word: str) -> None:
    (lake.path / "format").write_bytes(content)
    health = lake_health(lake.path)
    assert health.status == status
    assert word in (health.problem or "")


def test_lake_without_its_database(lake: Lake) -> None:
    lake.database.unlink()
    assert lake_health(lake.path).status == "unpublished"
    lake.database.write_bytes(b"not a database")
    assert lake_health(lake.path).status == "unusable"


def test_database_that_can_not_be_read(
    capsys: pytest.CaptureFixture[str], lake: Lake, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = lake.database.stat()
    lake.database.write_bytes(b"\0" * stamp.st_size)
    os.utime(lake.database, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    code, report = examined(capsys, str(sessions), "--lake", str(lake.path))
    assert code == 1
    assert "can't be read" in texts(report)


@pytest.mark.parametrize("foreign", ["a file", "a folder of other things"])
def test_what_is_no_lake(tmp_path: Path, foreign: str) -> None:
    path = tmp_path / foreign
    if foreign == "a file":
        path.write_bytes(b"")
    else:
        (path / "events").mkdir(parents=True)
    assert lake_health(path).status == "unusable"


def test_instants() -> None:
    assert instant(None) is None
    assert instant(-1) == "1969-12-31T23:59:59Z"
    assert instant(10**30) is None
