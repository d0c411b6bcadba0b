"""`read_log`: one file in, a log out; and the committed logs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import turnlake
from logs import VERSIONS, Session, Stored, as_zstd, codes, event_texts, faults, file_name, write
from turnlake.errors import SourceError
from turnlake.messages import log as log_module
from turnlake.messages.log import read_log

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())


def fixture(name: str) -> Path:
    [path] = (FIXTURES / name).glob("*.jsonl*")
    return path


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("container", ["raw", "zstd"])
def test_a_log_of_each_format(tmp_path: Path, version: int, container: str) -> None:
    session = Session(version).turn().turn_with_call()
    data = session.raw if container == "raw" else as_zstd(session.lines, [3, 3])
    log = turnlake.read_log(write(tmp_path, data, file_name(version, container)))
    assert log.header is not None and log.header.version == version
    assert (log.verdict.verdict, faults(log)) == ("clean", ())
    assert [event["seq"] for event in log.events] == list(range(session.seq))
    assert log.events is log.events


@pytest.mark.parametrize("name", EXPECTED)
def test_committed_logs(name: str) -> None:
    log = read_log(fixture(name))
    verdict = log.verdict
    assert EXPECTED[name] == {
        "dialect": verdict.dialect,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "line": verdict.line,
        "events": verdict.event_count,
        "accepted": verdict.accepted_event_count,
        "inherited": verdict.inherited_event_count,
        "findings": sorted(codes(log)),
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_committed_logs_survive(name: str) -> None:
    path = fixture(name)
    assert Stored(path.read_bytes(), path.name).replayed() == event_texts(read_log(path))


def test_every_committed_log_is_expected() -> None:
    assert {path.parent.name for path in FIXTURES.glob("*/*.jsonl*")} == set(EXPECTED)
    assert all(name in (FIXTURES / "README.md").read_text() for name in EXPECTED)


def test_a_refused_log_shows_every_readable_event() -> None:
    log = read_log(fixture("corrupt-middle"))
    assert (log.verdict.accepted_event_count, len(log.events)) == (0, 12)


def test_a_log_with_a_tail_shows_what_is_accepted() -> None:
    log = read_log(fixture("broken-tail"))
    assert [event["seq"] for event in log.events] == [0, 1, 2, 3, 4, 5, 6]


def test_text_is_kept_as_written() -> None:
    texts = [json.dumps(event, ensure_ascii=False) for event in read_log(fixture("odd-text")).events]
    assert any("\ud83d" in text for text in texts)
    assert any("\u2028" in text and "\\u0000" in text and "\x85" in text for text in texts)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_or_its_text(tmp_path: Path, kind: Any) -> None:
    assert read_log(kind(write(tmp_path, Session(4).turn().raw))).verdict.verdict == "clean"


def test_a_session_folder_with_one_log(tmp_path: Path) -> None:
    assert read_log(write(tmp_path, Session(4).turn().raw).parent).verdict.event_count == 6


def test_a_name_without_suffix_is_told_by_its_content(tmp_path: Path) -> None:
    session = Session(4).turn()
    for name, data in (("raw.txt", session.raw), ("packed", as_zstd(session.lines))):
        path = tmp_path / name
        path.write_bytes(data)
        assert read_log(path).verdict.event_count == 6


@pytest.mark.parametrize("data", [b"", b"\n", b"\x00" * 100, b"\x28\xb5\x2f\xfd", b"PK\x03\x04"])
def test_a_file_of_something_else_is_refused_or_empty(tmp_path: Path, data: bytes) -> None:
    log = read_log(write(tmp_path, data))
    assert (log.verdict.verdict, log.verdict.reason, log.events) == ("refused", "no_header", ())


def test_an_empty_folder_or_one_of_many_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="0 logs"):
        read_log(tmp_path)
    for session in ("a", "b"):
        write(tmp_path, Session(4).raw, session=session)
    with pytest.raises(SourceError, match="2 logs"):
        read_log(tmp_path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        read_log(tmp_path / "session.jsonl")


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, Session(4).raw)

    def refuse(log: Any, max_line: int) -> Any:
        raise PermissionError(13, "Permission denied", log.os_path)

    monkeypatch.setattr(log_module, "open_log", refuse)
    with pytest.raises(SourceError, match="Permission denied"):
        read_log(path)


def test_logs_are_never_written(tmp_path: Path) -> None:
    path = write(tmp_path, Session(4).turn().raw)
    path.chmod(0o444)
    before = path.stat()
    read_log(path)
    after = path.stat()
    assert (before.st_mtime_ns, before.st_size, before.st_mode) == (after.st_mtime_ns, after.st_size, after.st_mode)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_is_read_cannot_be_changed_by_mistake() -> None:
    log = read_log(fixture("first-version"))
    for value, name in ((log, "findings"), (log.header, "id"), (log.verdict, "verdict")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
