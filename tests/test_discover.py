"""Discovery: what is a log below a SOURCE, what is not, and which finding says so."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from turnlake.errors import SourceError
from turnlake.findings import CODES
from turnlake.sources import discover
from turnlake.sources.container import container_of, open_log
from turnlake.sources.discover import MAX_DEPTH, Discovery, find_logs
from turnlake.sources.logfile import (
    LogFile,
    decode_session_id,
    encode_session_id,
    generation_of,
    project_key,
    role_of,
    shown_path,
)
from turnlake.sources.source import Source, default_probes, default_source, merge_sources, parse_source

HOSTILE = ["two words", "会话", "🐟", "new\nline", "it's", "$(touch x)", "-rf", "a;b", '"', "tab\t", "%s", "\x1b[31m"]


def write(path: Path, data: bytes = b"{}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def found(*roots: Path) -> Discovery:
    return find_logs([parse_source(str(sessions)) for sessions in roots])


def paths(discovery: Discovery) -> list[str]:
    return [log.path for log in discovery.logs]


def codes(discovery: Discovery, sessions: Path) -> list[tuple[str, str]]:
    base = shown_path(str(sessions))
    return [(finding.code, place.removeprefix(base).removeprefix("/")) for place, finding in discovery.findings]


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("session.jsonl", 0),
        ("session.jsonl.zstd", 0),
        ("session.v1.jsonl", 1),
        ("session.v10.jsonl.zstd", 10),
        ("session.v99999999999999999999999.jsonl", 2**63 - 1),
        ("session.v0.jsonl", None),
        ("session.v03.jsonl", None),
        ("session.v٣.jsonl", None),
        ("Session.jsonl", None),
        ("session.jsonl\n", None),
        ("session.jsonl.zst", None),
        ("xsession.jsonl", None),
        ("session.v1.jsonl.tmp", None),
    ],
)
def test_generation_of_a_name(name: str, generation: int | None) -> None:
    assert generation_of(name) == generation


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("session.v4.jsonl", "canonical"),
        ("anything.jsonl", "loose"),
        ("anything.jsonl.zstd", "loose"),
        ("session.v0.jsonl", "lookalike"),
        ("SESSION.V4.JSONL.ZSTD", "lookalike"),
        ("session.jsonl.bak", "stray"),
        ("session.jsonl.gz", "stray"),
        ("session.jsonl.0123456789ab.tmp", None),
        ("session.migration.x.tmp", None),
        ("session.lock", None),
        ("notes.txt", None),
        ("dsh-session-a_b.zip", "export"),
        ("backup.zip", "archive"),
        ("session.deleted", "deleted"),
    ],
)
def test_role_of_a_name(name: str, role: str | None) -> None:
    assert role_of(name) == role


@pytest.mark.parametrize(
    ("cwd", "key"),
    [
        ("/home/ana/my app", "--home-ana-my~0020app--"),
        ("C:\\Users\\ana", "--C-Users-ana--"),
        ("/", "--root--"),
        ("/a-/b", "--a--b--"),
        ("/🐟", "--~D83D~DC1F--"),
        ("/" + "x" * 300, "--" + "x" * 251 + "--"),
        (None, "_no-cwd"),
    ],
)
def test_project_key(cwd: str | None, key: str) -> None:
    assert project_key(cwd) == key


@pytest.mark.parametrize("session_id", ["session-1.a_b", ".", "..", "a/b", "~", "🐟", "\ud83d", "a b", "..."])
def test_session_id_comes_back_from_its_folder(session_id: str) -> None:
    name = encode_session_id(session_id)
    assert name.isascii() and "/" not in name and name not in (".", "..")
    assert decode_session_id(name) == session_id


@pytest.mark.parametrize("folder", ["", ".", "..", "~", "a b", "~00e9", "~0041", "x~"])
def test_folder_that_no_session_id_gives(folder: str) -> None:
    assert decode_session_id(folder) is None


def test_empty_session_id_has_no_folder() -> None:
    with pytest.raises(ValueError, match="not empty"):
        encode_session_id("")


def test_shown_paths_are_valid_and_distinct() -> None:
    names = ["a", "a\udcff", "a\udcfe", "a\ufffd", "dsh-session-x.zip!", "会", shown_path("a\udcff")]
    shown = [shown_path(name) for name in names]
    assert len(set(shown)) == len(names)
    for text in shown:
        text.encode()
    assert shown_path("a!/b#c/会") == "a!/b#c/会"


def test_source_is_named_by_its_absolute_path(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sessions.parent)
    assert parse_source("sessions") == Source(str(sessions), None, sessions)


def test_source_with_a_machine(sessions: Path) -> None:
    assert parse_source(f"lab-1.x={sessions}") == Source("lab-1.x", "lab-1.x", sessions)


def test_existing_path_with_an_equals_sign_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    assert parse_source("a=b").machine is None
    assert parse_source("m=a=b") == Source("m", "m", tmp_path / "a=b")


def test_home_is_expanded_behind_a_name(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(sessions.parent))
    assert parse_source("m=~/sessions").root == sessions


@pytest.mark.parametrize("text", ["/nowhere/at/all", "m=/nowhere", "bad name=/tmp", "m=", "", " ", "x\0y", "\ud83d"])
def test_source_that_is_not_there(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match="turnlake doctor"):
        parse_source(text)


def test_fifo_as_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    with pytest.raises(SourceError, match="neither a folder nor a regular file"):
        parse_source(str(tmp_path / "f"))


def test_default_source_is_the_harness_home(tmp_path: Path) -> None:
    (tmp_path / ".dsh" / "sessions").mkdir(parents=True)
    (tmp_path / "else where" / "sessions").mkdir(parents=True)
    home = {"HOME": str(tmp_path)}
    by_default, elsewhere = tmp_path / ".dsh/sessions", tmp_path / "else where/sessions"
    assert default_source(home).root == by_default
    assert default_source({**home, "DSH_HOME": "  "}).root == by_default
    assert default_source({**home, "DSH_HOME": str(tmp_path / "else where")}).root == elsewhere
    assert default_source({**home, "DSH_HOME": "~/else where"}).root == elsewhere
    assert default_source({**home, "DSH_HOME": "~\\else where "}).root == elsewhere


def test_default_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Name a SOURCE"):
        default_source({"HOME": str(tmp_path)})
    assert [probe.is_used for probe in default_probes({"HOME": "/h", "DSH_HOME": "~"})] == [True, False]
    assert default_probes({"HOME": "/h", "DSH_HOME": "~"})[0].path == Path("/h/sessions")


def test_one_root_is_searched_once(sessions: Path, tmp_path: Path) -> None:
    write(sessions / "s/session.jsonl")
    (tmp_path / "link").symlink_to(sessions)
    sources = [
        parse_source(str(sessions)),
        parse_source(f"m={tmp_path / 'link'}"),
        parse_source(f"{sessions}/../sessions"),
    ]
    assert [source.name for source in merge_sources(sources)] == ["m"]
    assert len(find_logs(sources).logs) == 1


def test_names_that_contradict_each_other(sessions: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="its own NAME"):
        merge_sources([parse_source(f"m={sessions}"), parse_source(f"m={tmp_path}")])
    with pytest.raises(SourceError, match="one NAME"):
        merge_sources([parse_source(f"m={sessions}"), parse_source(f"n={sessions}")])


def test_every_kind_of_source(sessions: Path) -> None:
    log = write(sessions / "--p--/s1/session.v3.jsonl", b"header\n")
    with zipfile.ZipFile(sessions / "dsh-session-z.zip", "w") as archive:
        archive.writestr("session.jsonl", "header\n")
    exported = "dsh-session-z.zip!/session.jsonl"
    assert paths(found(sessions)) == ["--p--/s1/session.v3.jsonl", exported]
    assert paths(found(sessions / "--p--")) == ["s1/session.v3.jsonl"]
    assert paths(found(sessions / "--p--/s1")) == ["session.v3.jsonl"]
    assert paths(found(log)) == ["session.v3.jsonl"]
    assert paths(found(sessions / "dsh-session-z.zip")) == [exported]
    kinds = [found(path).probed[0].kind for path in (sessions, log, sessions / "dsh-session-z.zip")]
    assert kinds == ["folder", "log", "archive"]


def test_what_a_log_file_knows(sessions: Path) -> None:
    file = write(sessions / "--p--/s1/session.v3.jsonl", b"12345")
    [log] = find_logs([parse_source(f"m={sessions}")]).logs
    assert (log.source, log.machine, log.folder, log.file_name) == ("m", "m", "--p--/s1", "session.v3.jsonl")
    assert (log.generation, log.is_canonical, log.size, log.entry) == (3, True, 5, None)
    assert log.file == file and log.mtime_ns == file.stat().st_mtime_ns and log.place == str(file)
    assert log.log_id == hashlib.sha256(b"m\0--p--/s1/session.v3.jsonl").hexdigest()[:16]


def test_file_of_any_name_as_source(tmp_path: Path) -> None:
    raw, packed = write(tmp_path / "trace.log"), write(tmp_path / "trace.bin", b"\x28\xb5\x2f\xfd rest")
    with zipfile.ZipFile(tmp_path / "export", "w") as archive:
        archive.writestr("session.v4.jsonl", "header\n")
    logs = [found(path).logs[0] for path in (raw, packed, tmp_path / "export")]
    assert [container_of(log) for log in logs] == ["raw", "zstd", "raw"]
    assert [log.generation for log in logs] == [None, None, 4]


def test_link_as_source(sessions: Path, tmp_path: Path) -> None:
    write(sessions / "s/session.jsonl", b"x")
    (tmp_path / "folder").symlink_to(sessions)
    (tmp_path / "mine.jsonl").symlink_to(sessions / "s/session.jsonl")
    assert paths(found(tmp_path / "folder")) == ["s/session.jsonl"]
    assert paths(found(tmp_path / "mine.jsonl")) == ["mine.jsonl"]


def test_source_that_vanished_or_changed(sessions: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl")
    sources = [parse_source(str(sessions)), parse_source(str(log))]
    sessions.rmdir()
    log.unlink()
    os.mkfifo(log)
    discovery = find_logs(sources)
    assert discovery.logs == ()
    assert [(finding.code) for _, finding in discovery.findings] == ["not_a_regular_file", "unreadable_file"]


def test_all_generations_of_a_session_share_a_folder(sessions: Path) -> None:
    for name in ("session.jsonl", "session.v2.jsonl", "session.v10.jsonl.zstd", "session.lock", "session.jsonl.0.tmp"):
        write(sessions / "p/s" / name)
    discovery = found(sessions)
    assert [(log.folder, log.generation) for log in discovery.logs] == [("p/s", 0), ("p/s", 10), ("p/s", 2)]
    assert discovery.findings == ()


def test_other_names_beside_a_session(sessions: Path) -> None:
    for name in ("session.jsonl", "session.v0.jsonl", "session.v03.jsonl", "Session.jsonl", "events.jsonl", "x.txt"):
        write(sessions / name)
    discovery = found(sessions)
    assert paths(discovery) == ["session.jsonl"]
    names = ["Session.jsonl", "events.jsonl", "session.v0.jsonl", "session.v03.jsonl"]
    assert codes(discovery, sessions) == [("ignored_file", name) for name in names]


def test_loose_logs(sessions: Path) -> None:
    for name in ("a.jsonl", "p/b.jsonl.zstd", "p/Session.jsonl", "p/c.jsonl.gz", "p/c.zip"):
        write(sessions / name)
    discovery = found(sessions)
    assert paths(discovery) == ["a.jsonl", "p/b.jsonl.zstd"]
    assert not any(log.is_canonical for log in discovery.logs)
    assert codes(discovery, sessions) == [
        ("flat_layout", "a.jsonl"),
        ("ignored_file", "p/Session.jsonl"),
        ("flat_layout", "p/b.jsonl.zstd"),
        ("ignored_file", "p/c.jsonl.gz"),
        ("ignored_file", "p/c.zip"),
    ]


def test_raw_and_compressed_of_one_generation(sessions: Path) -> None:
    for name in ("session.v3.jsonl", "session.v3.jsonl.zstd", "session.jsonl"):
        write(sessions / name)
    discovery = found(sessions)
    assert len(discovery.logs) == 3
    assert codes(discovery, sessions) == [("mixed_compression", "session.v3.jsonl")]


def test_deleted_session(sessions: Path) -> None:
    for name in ("gone/session.jsonl", "gone/session.deleted", "here/session.jsonl"):
        write(sessions / name)
    discovery = found(sessions)
    assert paths(discovery) == ["here/session.jsonl"]
    assert codes(discovery, sessions) == [("deleted_marker", "gone")]


def test_folders_too_deep(sessions: Path) -> None:
    deepest = "/".join("d" * MAX_DEPTH)
    write(sessions / deepest / "session.jsonl")
    write(sessions / deepest / "d/session.jsonl")
    discovery = found(sessions)
    assert paths(discovery) == [f"{deepest}/session.jsonl"]
    assert codes(discovery, sessions) == [("folder_too_deep", f"{deepest}/d")]


def test_hostile_names(sessions: Path) -> None:
    for name in HOSTILE:
        write(sessions / name / name / "session.jsonl", name.encode())
    discovery = found(sessions)
    assert sorted(paths(discovery)) == sorted(f"{name}/{name}/session.jsonl" for name in HOSTILE)
    for log in discovery.logs:
        with open_log(log) as file:
            assert file.read().decode() == log.path.split("/")[0]


def test_names_that_are_not_utf8(sessions: Path) -> None:
    for data in (b"\xfe", b"\xff"):
        write(sessions / os.fsdecode(b"s" + data) / "session.jsonl", data)
    discovery = found(sessions)
    assert len({log.log_id for log in discovery.logs}) == 2
    for log in discovery.logs:
        assert log.path.startswith("s\ufffd#")
        assert log.generation == 0
        with open_log(log) as opened:
            assert opened.read() in (b"\xfe", b"\xff")


def test_source_whose_name_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    write(folder / "session.jsonl")
    [log] = found(folder).logs
    assert log.source.startswith(f"{tmp_path}/\ufffd#")
    assert len(log.log_id) == 16


def test_order_does_not_depend_on_the_file_system(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/x.jsonl", "a/session.jsonl", "B/session.jsonl", "ä/session.jsonl", "a/session.v0.jsonl"):
        write(sessions / name)
    scandir = os.scandir

    class Backwards:
        def __init__(self, path: str) -> None:
            with scandir(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> Sequence[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            pass

    one = found(sessions)
    monkeypatch.setattr(discover.os, "scandir", Backwards)
    assert found(sessions) == one
    assert paths(one) == ["B/session.jsonl", "a/session.jsonl", "b/x.jsonl", "ä/session.jsonl"]


def test_links_inside_the_source(sessions: Path) -> None:
    write(sessions / "p/s/session.jsonl")
    write(sessions / "store/blob")
    (sessions / "p/again").symlink_to(sessions / "p/s")
    (sessions / "p/s/up").symlink_to(sessions)
    (sessions / "p/loop").symlink_to(sessions / "p/loop")
    (sessions / "t").mkdir()
    (sessions / "t/session.v2.jsonl").symlink_to("../store/blob")
    (sessions / "u.jsonl").symlink_to("p/s/session.jsonl")
    with zipfile.ZipFile(sessions / "p/dsh-session-x.zip", "w") as archive:
        archive.writestr("session.jsonl", "header\n")
    (sessions / "dsh-session-y.zip").symlink_to("p/dsh-session-x.zip")
    discovery = found(sessions)
    assert paths(discovery) == ["p/dsh-session-x.zip!/session.jsonl", "p/s/session.jsonl", "t/session.v2.jsonl"]
    assert discovery.findings == ()


def test_links_that_leave_the_source(sessions: Path, tmp_path: Path) -> None:
    write(tmp_path / "out/session.jsonl")
    write(tmp_path / "sessions-2/session.jsonl")
    (sessions / "s").mkdir()
    (sessions / "s/session.jsonl").symlink_to(tmp_path / "out/session.jsonl")
    (sessions / "folder").symlink_to("../out")
    (sessions / "sibling").symlink_to(tmp_path / "sessions-2")
    (sessions / "parent").symlink_to("..")
    (sessions / "notes.txt").symlink_to("/etc/hostname")
    (sessions / "broken.jsonl").symlink_to("nowhere")
    discovery = found(sessions)
    assert discovery.logs == ()
    assert codes(discovery, sessions) == [
        ("unreadable_file", "broken.jsonl"),
        ("symlink_outside", "folder"),
        ("symlink_outside", "parent"),
        ("symlink_outside", "s/session.jsonl"),
        ("symlink_outside", "sibling"),
    ]


def test_files_that_are_not_regular(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(sessions / "session.jsonl")
    os.mkfifo(sessions / "notes.txt")
    monkeypatch.chdir(sessions)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("x.jsonl")
        discovery = found(sessions)
    assert discovery.logs == ()
    assert codes(discovery, sessions) == [("not_a_regular_file", "session.jsonl"), ("not_a_regular_file", "x.jsonl")]


def test_file_swapped_for_a_fifo(sessions: Path) -> None:
    path = write(sessions / "session.jsonl")
    [log] = found(sessions).logs
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        open_log(log)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        open_log(log)


def test_folder_that_can_not_be_listed(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(sessions / "a/session.jsonl")
    write(sessions / "b/session.jsonl")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("/a"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(discover.os, "scandir", refusing)
    discovery = found(sessions)
    assert paths(discovery) == ["b/session.jsonl"]
    assert codes(discovery, sessions) == [("unreadable_folder", "a")]


MODULES = ("discover.py", "archive.py")


def test_every_finding_has_a_code() -> None:
    texts = [(Path(discover.__file__).parent / name).read_text() for name in MODULES]
    used = {code for text in texts for code in re.findall(r'(?:Finding\(|self\.note\([^"]+)"(\w+)"', text)}
    assert {"unreadable_folder", "archive_unreadable", "ignored_file"} <= used <= set(CODES)


def test_containers_by_name() -> None:
    def log(name: str, entry: str | None = None) -> LogFile:
        return LogFile("s", None, name, f"/nowhere/{name}", entry, 0, 0)

    assert container_of(log("session.jsonl.zstd")) == "zstd"
    assert container_of(log("x.jsonl")) == "raw"
    assert container_of(log("x.zip!/session.jsonl", "session.jsonl")) == "raw"


def test_many_folders(sessions: Path) -> None:
    for number in range(500):
        write(sessions / f"--p-{number % 7}--" / f"session-{number:04}" / "session.v4.jsonl")
    discovery = found(sessions)
    assert len({log.log_id for log in discovery.logs}) == 500
    assert discovery.probed[0].folder_count == 508
    assert discovery.probed[0].log_count == 500
