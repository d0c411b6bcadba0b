"""Export ZIPs: which entries are logs, and what hostile or damaged archives come to."""

from __future__ import annotations

import io
import random
import struct
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from turnlake.sources.archive import Listing, is_log_entry, list_entries, open_entry
from turnlake.sources.container import open_log
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source


def zipped(entries: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def listed(data: bytes) -> Listing:
    return list_entries(io.BytesIO(data))


def found(listing: Listing) -> list[tuple[str | None, str]]:
    return [(name, finding.code) for name, finding in listing.findings]


def central_directory(data: bytes) -> int:
    return data.index(b"PK\x01\x02")


@pytest.mark.parametrize(
    "name",
    ["session.jsonl", "session.v4.jsonl", "subagents/a_b/session.v2.jsonl", "subagents/会/session.jsonl"],
)
def test_entries_that_are_logs(name: str) -> None:
    assert is_log_entry(name)


@pytest.mark.parametrize(
    "name",
    [
        "../session.jsonl",
        "/session.jsonl",
        "./session.jsonl",
        "subagents/../session.jsonl",
        "subagents/./session.jsonl",
        "subagents//session.jsonl",
        "subagents/a/b/session.jsonl",
        "subagents/a\\b/session.jsonl",
        "subagents/a\x00/session.jsonl",
        "C:\\session.jsonl",
        "session.jsonl\x00.txt",
        "session.v0.jsonl",
        "Session.jsonl",
        "x/session.jsonl",
    ],
)
def test_entries_that_are_not(name: str) -> None:
    assert not is_log_entry(name)


def test_export(tmp_path: Path) -> None:
    entries = {
        "session.v4.jsonl": b"root\n",
        "subagents/child 1/session.v4.jsonl": b"child\n",
        "media/sha256_1.png": b"image",
    }
    (tmp_path / "dsh-session-x.zip").write_bytes(zipped(entries))
    discovery = find_logs([parse_source(str(tmp_path))])
    assert discovery.findings == ()
    assert [(log.path, log.folder, log.generation, log.size) for log in discovery.logs] == [
        ("dsh-session-x.zip!/session.v4.jsonl", "dsh-session-x.zip!", 4, 5),
        ("dsh-session-x.zip!/subagents/child 1/session.v4.jsonl", "dsh-session-x.zip!/subagents/child 1", 4, 6),
    ]
    contents = []
    for log in discovery.logs:
        with open_log(log) as file:
            contents.append(file.read())
    assert contents == [b"root\n", b"child\n"]


def test_content_comes_in_pieces() -> None:
    data = bytes(range(256)) * 20_000
    with open_entry(io.BytesIO(zipped({"session.jsonl": data})), "session.jsonl") as file:
        assert b"".join(iter(lambda: file.read(700_001), b"")) == data


def test_closing_an_entry_closes_its_archive() -> None:
    file = io.BytesIO(zipped({"session.jsonl": b"x"}))
    open_entry(file, "session.jsonl").close()
    assert file.closed


def test_names_that_would_climb_out(tmp_path: Path) -> None:
    names = ["../../evil/session.jsonl", "/etc/session.jsonl", "session.jsonl"]
    (tmp_path / "x.zip").write_bytes(zipped(dict.fromkeys(names, b"")))
    discovery = find_logs([parse_source(str(tmp_path / "x.zip"))])
    assert [log.path for log in discovery.logs] == ["x.zip!/session.jsonl"]
    assert [(place, finding.code) for place, finding in discovery.findings] == [
        (f"{tmp_path}/x.zip!/../../evil/session.jsonl", "ignored_file"),
        (f"{tmp_path}/x.zip!//etc/session.jsonl", "ignored_file"),
    ]


def test_duplicate_entries() -> None:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("session.jsonl", b"first")
        archive.writestr("session.jsonl", b"last one")
    listing = listed(buffer.getvalue())
    assert [entry.size for entry in listing.entries] == [8]
    assert found(listing) == [("session.jsonl", "archive_duplicate_entry")]
    with open_entry(buffer, "session.jsonl") as file:
        assert file.read() == b"last one"


def test_encrypted_entry() -> None:
    data = bytearray(zipped({"session.jsonl": b"x"}))
    data[central_directory(data) + 8] |= 1
    listing = listed(bytes(data))
    assert listing.entries == ()
    assert found(listing) == [("session.jsonl", "archive_encrypted_entry")]
    with pytest.raises(OSError, match="can't be read"):
        open_entry(io.BytesIO(data), "session.jsonl")


def test_unknown_compression_method() -> None:
    data = bytearray(zipped({"session.jsonl": b"x"}))
    struct.pack_into("<H", data, central_directory(data) + 10, 99)
    assert found(listed(bytes(data))) == [("session.jsonl", "archive_unreadable")]


def test_absurd_size() -> None:
    data = bytearray(zipped({"session.jsonl": b"x"}))
    struct.pack_into("<I", data, central_directory(data) + 24, 2**31)
    listing = listed(bytes(data))
    assert listing.entries == ()
    assert found(listing) == [("session.jsonl", "archive_absurd_size")]


def test_content_longer_than_claimed_is_never_given() -> None:
    data = bytearray(zipped({"session.jsonl": b"x" * 10_000}))
    struct.pack_into("<I", data, central_directory(data) + 24, 10)
    with pytest.raises(OSError, match="can't be read"), open_entry(io.BytesIO(data), "session.jsonl") as file:
        file.read()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a zip at all", zipped({"session.jsonl": b"x"})[:-9]])
def test_no_archive_at_all(data: bytes) -> None:
    assert found(listed(data)) == [(None, "archive_unreadable")]


def test_unreadable_archive_is_found_by_place(tmp_path: Path) -> None:
    (tmp_path / "dsh-session-x.zip").write_bytes(b"PK\x03\x04")
    [(place, finding)] = find_logs([parse_source(str(tmp_path))]).findings
    assert (place, finding.code) == (f"{tmp_path}/dsh-session-x.zip", "archive_unreadable")


def test_damage_is_an_oserror_or_a_finding() -> None:
    good = zipped({"session.jsonl": b"line\n" * 50, "subagents/a/session.jsonl": b"y"})
    dice = random.Random(7)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        for entry in listed(bytes(data)).entries:
            try:
                with open_entry(io.BytesIO(data), entry.name) as file:
                    file.read()
            except OSError:
                continue
