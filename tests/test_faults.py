"""Whatever happens to a build, its lake or its logs: the old state or the new one, and the next build mends.

One seed each in the suite; TURNLAKE_FAULTS=100 takes a hundred (`make faults`), TURNLAKE_SEED another first one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.damage import SMALL_FILES, WAYS, rot, spoilable, state_folder, vanish
from faults.world import TRACEBACK, World, ended
from test_incremental import ingest
from turnlake.api import connect
from turnlake.cli import main
from turnlake.errors import LakeError

COUNT = int(os.environ.get("TURNLAKE_FAULTS", "1"))
FIRST = int(os.environ.get("TURNLAKE_SEED", "1"))
SEEDS = range(FIRST, FIRST + COUNT)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, FIRST)


def new_world(folder: Path, seed: int) -> tuple[World, float]:
    """A world whose lake is built once, and the seconds that took."""
    world = World(folder, seed)
    begin = time.monotonic()
    assert world.build() == (0, "")
    return world, time.monotonic() - begin


# Builds that do not end as they should.


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_a_random_moment(seed: int, tmp_path: Path) -> None:
    world, duration = new_world(tmp_path, seed)
    for _ in range(3):
        before = world.database()
        world.step()
        process = world.start()
        time.sleep(world.rng.random() * duration)
        process.kill()
        ended(process)
        after = world.database()
        world.doctor()
        # The old numbers, or those a build of now gives, which is the same build once more.
        assert world.build() == (0, "")
        assert after in (before, world.database())
    world.assert_mended()


@pytest.mark.parametrize("seed", SEEDS)
def test_two_builds_at_once(seed: int, tmp_path: Path) -> None:
    world, duration = new_world(tmp_path, seed)
    world.step()
    first = world.start()
    time.sleep(world.rng.random() * duration)
    world.step()
    second = world.start()
    assert [ended(process)[0] for process in (first, second)] == [0, 0]
    world.assert_mended()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 150 MB; skips where this user may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=150m", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_disk_is_full(seed: int, small_disk: Path) -> None:
    """So many bytes are free, from none on: it works, or it says in one line that the disk is full."""
    world = World(small_disk.parent, seed, small_disk / "lake")
    assert world.build() == (0, "")
    for _ in range(3):
        before = world.database()
        world.step()
        free = world.rng.choice((0, world.rng.randint(1, 9) << 12, world.rng.randint(1, 12 << 20)))
        fill(small_disk, free)
        code, said = world.build()
        assert (code, TRACEBACK in said) in ((0, False), (3, False)), said
        if code:
            assert "disk is full" in said and said.count("\n") == 1, said
            assert world.database() == before
        world.doctor()
        (small_disk / "filler").unlink()
    world.assert_mended()


def fill(disk: Path, free: int) -> None:
    """Leave so many bytes."""
    status = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize - free))


# Logs that do not hold still.


@pytest.mark.parametrize("seed", SEEDS)
def test_logs_change_when_they_are_opened(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Just before or after a log is opened it grows, is cut, written anew or removed."""
    world = World(tmp_path, seed)
    ingest(world.lake, world.root)
    open_file = os.open

    def opened(path: Any, flags: int, *more: Any, **options: Any) -> int:
        here = str(path)
        if not here.startswith(str(world.root)) or flags & (os.O_WRONLY | os.O_RDWR) or world.rng.random() < 0.5:
            return open_file(path, flags, *more, **options)
        name = Path(here).parent.name
        if world.rng.random() < 0.5:
            world.change(name)
            return open_file(path, flags, *more, **options)
        descriptor = open_file(path, flags, *more, **options)
        world.change(name)
        return descriptor

    for _ in range(4):
        world.step()
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", opened)
            assert main(["ingest", str(world.root), "--lake", str(world.lake), "--workers", "1", "-q"]) == 0
    world.assert_mended()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_grows_while_it_is_read(seed: int, tmp_path: Path) -> None:
    world, _ = new_world(tmp_path, seed)
    over = threading.Event()
    path = world.root / "--w--" / "s0" / world.logs()[0].name

    def write() -> None:
        for number in range(3000):
            if over.is_set():
                return
            with path.open("ab") as file:
                file.write(b'{"type":"todo/write","seq":%d,"time":5,"data":{}}\n' % number)
            time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(2):
        assert world.build()[0] == 0
        world.database()
    over.set()
    writer.join()
    world.assert_mended()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_clock_is_turned_back(seed: int, tmp_path: Path) -> None:
    """Logs get older times than they had, with as many bytes as they had or others."""
    world, _ = new_world(tmp_path, seed)
    world.turn_clock_back()
    for name in list(world.sessions):
        world.rewrite(name)
    world.assert_mended()
    world.step()
    world.assert_mended()


# Files of the lake that vanish or rot.


@pytest.mark.parametrize("seed", SEEDS)
def test_any_file_of_the_lake_is_spoilt(seed: int, tmp_path: Path) -> None:
    """Files at random, with states before it: reading never gives other numbers, and the next build mends."""
    world, _ = new_world(tmp_path, seed)
    world.step()
    assert world.build()[0] == 0
    for _ in range(3):
        before = world.database()
        files = {name: path for name, path in spoilable(world.lake).items() if name != "loads.jsonl"}
        name, path = world.rng.choice(sorted(files.items()))
        way = vanish if path.is_dir() else world.rng.choice(WAYS)
        print(name, way.__name__)
        way(path)
        world.doctor()
        assert world.build("--full")[0] == 0
        # Of a log that is gone too, nothing is left; that is told.
        assert world.database() == before or lost(world)
        world.step()
        code, said = world.build()
        assert (code, TRACEBACK in said) == (0, False), said
    world.assert_mended()


def assert_same_numbers(world: World, before: tuple[int, ...] | None) -> None:
    """Reading gives the numbers of before or says that it can't."""
    with contextlib.suppress(LakeError):
        assert world.database() == before


PARTS = ("logs/logs.parquet", "events/part-00000.parquet", "findings/part-00000.parquet", "events/tail.parquet")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_rots_is_named_and_mended(name: str, way: Any, world: World) -> None:
    ingest(world.lake, world.root)
    path = state_folder(world.lake) / name
    good = path.read_bytes()
    way(path)
    assert f"not as written ({name})" in json.dumps(world.doctor()["reasons"])
    # What only has other bytes is found where the lake is gone on from.
    assert main(["ingest", str(world.root), "--lake", str(world.lake), "-q", "--workers", "1", "--full"]) == 0
    assert (state_folder(world.lake) / name).read_bytes() == good
    assert world.doctor()["lake"]["damaged"] == []


def test_models_are_never_built_of_a_rotten_part(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ingest(world.lake, world.root)
    rot(state_folder(world.lake) / "events" / "part-00000.parquet")
    for words in (["model"], ["build", str(world.root)]):
        assert main([*words, "--lake", str(world.lake), "-q"]) == 2
        assert "events/part-00000.parquet is not as written" in capsys.readouterr().err
    assert main(["build", str(world.root), "--lake", str(world.lake), "-q", "--full"]) == 0


def test_what_only_the_lake_had_is_named_when_it_is_lost(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding in this state and all later ones, until the log is found again or purged."""
    ingest(world.lake, world.root)
    data = {path: path.read_bytes() for path in world.logs()}
    world.remove("s1")
    ingest(world.lake, world.root)
    vanish(state_folder(world.lake) / "events" / "part-00000.parquet")
    words = ["build", str(world.root), "--lake", str(world.lake), "-q", "--workers", "1"]
    assert main(words) == 0
    assert "s1/session" in capsys.readouterr().err
    for _ in range(2):
        world.grow("s0")
        assert main(words) == 0
        [(detail,)] = lost(world)
        assert "s1/session" in detail
    for path, content in data.items():
        if not path.exists():
            path.write_bytes(content)
    assert main(words) == 0
    assert lost(world) == []
    world.assert_mended()


def lost(world: World) -> list[Any]:
    with connect(world.lake) as db:
        return db.execute("select detail from raw.findings where code = 'lost_log'").fetchall()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_small_file_that_is_damaged_is_made_anew(name: str, way: Any, world: World) -> None:
    assert world.build() == (0, "")
    before = world.database()
    way(world.lake / name)
    assert_same_numbers(world, before)
    world.doctor()
    assert world.build()[0] == 0
    assert world.database() == before
    assert world.doctor()["lake"]["status"] == "ready"


def test_a_state_without_manifest_gives_way_to_the_one_before(world: World) -> None:
    assert world.build() == (0, "")
    (state_folder(world.lake) / "manifest.json").write_bytes(b"{")
    code, said = world.build()
    assert (code, "manifest.json can't be read" in said) == (2, True)
    shutil.rmtree(world.lake)
    assert world.build() == (0, "")
    world.step()
    assert world.build() == (0, "")
    (state_folder(world.lake) / "manifest.json").write_bytes(b"{")
    assert "can't be read" in json.dumps(world.doctor())
    code, said = world.build()
    assert (code, "going on from" in said) == (0, True)
    world.assert_mended()
