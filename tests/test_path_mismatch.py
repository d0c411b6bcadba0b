"""A log lies where its header says, or there is a finding; the verdict stays what it was."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from logs import Session, write
from turnlake.findings import Finding
from turnlake.format.reader import LogPass
from turnlake.sources.container import container_of, open_log
from turnlake.sources.discover import find_logs
from turnlake.sources.logfile import encode_session_id, is_project_folder, project_key
from turnlake.sources.source import parse_source


def mismatches(source: Path) -> list[Finding]:
    """The findings about the places of the logs below a source, all of which must be clean."""
    found = []
    for log in find_logs([parse_source(str(source))]).logs:
        with open_log(log) as file:
            reading = LogPass(log, file, container_of(log))
            list(reading.records())
        assert reading.verdict is not None and reading.verdict.verdict == "clean"
        found += [finding for finding in reading.scan.findings if finding.code == "path_mismatch"]
    return found


def root(tmp_path: Path, project: str, session: str, **header: Any) -> Path:
    write(tmp_path / "root", Session(4, **header).turn().raw, session=session, project=project)
    return tmp_path / "root"


@pytest.mark.parametrize("id_", ["s1", "session-1.x_y", "a b", "..", "~", "日本", "🦀"])
@pytest.mark.parametrize("cwd", ["/", "/w", "/home/ana/my app", "C:\\work\\x", "/" + "long/" * 80, "/日本"])
def test_the_harness_own_places_are_right(tmp_path: Path, id_: str, cwd: str) -> None:
    place = root(tmp_path, project_key(cwd), encode_session_id(id_), id=id_, cwd=cwd)
    assert mismatches(place) == []


def test_a_session_without_a_working_directory(tmp_path: Path) -> None:
    assert mismatches(root(tmp_path, "_no-cwd", "s1", cwd=...)) == []
    assert len(mismatches(root(tmp_path, "--w--", "s1", cwd=...))) == 1


def test_each_folder_that_contradicts_the_header_is_told(tmp_path: Path) -> None:
    session, project = mismatches(root(tmp_path, "--other--", "s2"))
    assert "'s1'" in session.detail and "'s2'" in session.detail
    assert "'/w'" in project.detail and "'--other--'" in project.detail
    assert (session.line, project.line, session.seq) == (1, 1, None)


def test_only_what_lies_below_the_source_is_looked_at(tmp_path: Path) -> None:
    place = root(tmp_path, "--other--", "s2")
    assert len(mismatches(place / "--other--")) == 1
    assert mismatches(place / "--other--" / "s2") == []
    assert mismatches(place / "--other--" / "s2" / "session.v4.jsonl") == []


def test_logs_in_no_session_folder_are_spared(tmp_path: Path) -> None:
    path = tmp_path / "root" / "--other--" / "free.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(Session(4).turn().raw)
    with zipfile.ZipFile(tmp_path / "root" / "dsh-session-s1.zip", "w") as archive:
        archive.writestr("subagents/s9/session.v4.jsonl", Session(4).turn().raw)
    assert mismatches(tmp_path / "root") == []


@pytest.mark.parametrize(
    ("name", "cwd", "is_right"),
    [
        ("--w--", "/w", True),
        ("--private-tmp-x--", "/tmp/x", True),
        ("--tmp-x--", "/private/tmp/x", True),
        ("--home-bob-app--", "/home/ana/app", False),
        ("--app--", "/home/ana/myapp", False),
        ("w", "/w", False),
        ("_no-cwd", "/w", False),
        ("_no-cwd", None, True),
        ("--w--", None, False),
        ("--root--", "/", True),
        ("", "/w", False),
    ],
)
def test_a_project_folder_may_be_named_for_what_links_lead_to(name: str, cwd: str | None, is_right: bool) -> None:
    assert is_project_folder(name, cwd) is is_right
