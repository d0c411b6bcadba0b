"""The keyed hash: stable, told apart, and its key private."""

from __future__ import annotations

import hashlib
import multiprocessing
import stat
from pathlib import Path

import pytest

from turnlake.errors import UsageError
from turnlake.hashing import Hasher, key_file, load_hasher

ONE, OTHER = Hasher(b"1" * 32), Hasher(b"2" * 32)


def environ(folder: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(folder)}


def test_a_text_has_one_hash_under_a_key() -> None:
    assert ONE.hashed("/home/dev/项目") == ONE.hashed("/home/dev/项目")
    assert len({ONE.hashed("a"), ONE.hashed("A"), ONE.hashed("a "), ONE.hashed(""), OTHER.hashed("a")}) == 5


def test_a_hash_shows_nothing_of_the_text_nor_what_a_bare_hash_would() -> None:
    hashed = ONE.hashed("shop")
    assert hashed.startswith("h_")
    assert len(hashed) == 18
    assert hashed.removeprefix("h_") not in hashlib.sha256(b"shop").hexdigest()


def test_lone_surrogates_can_be_hashed() -> None:
    assert ONE.hashed("\ud83d") != ONE.hashed("\ud83e")


def test_the_key_is_not_shown() -> None:
    assert "1111" not in repr(ONE)
    assert ONE.key.hex()[:8] != ONE.key_id != OTHER.key_id


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    first = load_hasher(environ(tmp_path))
    path = key_file(environ(tmp_path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["hash-key"]
    assert load_hasher(environ(tmp_path)) == first
    assert load_hasher(environ(tmp_path / "other")) != first


def _key_id(folder: Path) -> str:
    return load_hasher(environ(folder)).key_id


def test_processes_that_start_together_share_one_key(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert len(set(pool.map(_key_id, [tmp_path] * 4, chunksize=1))) == 1


def test_a_key_that_is_there_already_wins(tmp_path: Path) -> None:
    from turnlake.hashing import _make_key

    before = load_hasher(environ(tmp_path))
    _make_key(key_file(environ(tmp_path)))
    assert load_hasher(environ(tmp_path)) == before


@pytest.mark.parametrize(
    ("variables", "folder"),
    [({"XDG_CONFIG_HOME": "/c"}, "/c"), ({}, "~/.config"), ({"XDG_CONFIG_HOME": "relative"}, "~/.config")],
    ids=["named", "default", "relative"],
)
def test_where_the_key_is(variables: dict[str, str], folder: str) -> None:
    assert key_file(variables) == Path(folder).expanduser() / "turnlake" / "hash-key"


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [("", 0o600, "holds no key"), ("zz" * 32, 0o600, "holds no key"), ("00" * 31, 0o600, "holds no key"),
     ("00" * 32, 0o644, "can be read by others")],
    ids=["empty", "not hex", "short", "open to all"],
)  # fmt: skip
def test_a_key_that_is_no_good_is_refused(tmp_path: Path, content: str, mode: int, says: str) -> None:
    path = key_file(environ(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(UsageError, match=says):
        load_hasher(environ(tmp_path))


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be used as the key of hashes"):
        load_hasher(environ(tmp_path / "file"))
