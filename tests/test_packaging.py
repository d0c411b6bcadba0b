"""What is shipped: the wheel, and what the repository may hold."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from turnlake import __version__

MAX_TRACKED_BYTES = 1024 * 1024


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of the checkout, built without looking at any index."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed; the dev extra brings it")
    folder = tmp_path_factory.mktemp("wheel")
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
    ]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(root)], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def tracked(root: Path) -> list[Path]:
    """The files that git tracks."""
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True)
    return [Path(name) for name in done.stdout.split("\0") if name and (root / name).exists()]


def test_wheel_holds_all_code_sql_and_prices(root: Path, wheel: zipfile.ZipFile) -> None:
    shipped = set(wheel.namelist())
    for folder, place in (
        ("pipeline/turnlake", "turnlake"),
        ("sql", "turnlake/sql"),
        ("data/prices", "turnlake/prices-data"),
    ):
        files = [path for path in (root / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        missing = {f"{place}/{path.relative_to(root / folder).as_posix()}" for path in files} - shipped
        assert not missing


def test_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"turnlake", f"turnlake-{__version__}.dist-info"}


def test_wheel_names_the_program_and_the_license(wheel: zipfile.ZipFile) -> None:
    info = f"turnlake-{__version__}.dist-info"
    assert "turnlake = turnlake.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_version_is_in_the_changelog_and_written_once(root: Path) -> None:
    newest = re.search(r"^## (\S+?),? ", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__
    assert __version__ not in (root / "pyproject.toml").read_text("utf-8")


def test_tracked_files_are_small(root: Path, tracked: list[Path]) -> None:
    assert [path for path in tracked if (root / path).stat().st_size > MAX_TRACKED_BYTES] == []


def test_only_sample_and_prices_of_data_are_tracked(tracked: list[Path]) -> None:
    allowed = ("data/README.md", "data/prices/", "data/sample/")
    data = [path.as_posix() for path in tracked if path.parts[0] == "data"]
    assert [path for path in data if not path.startswith(allowed)] == []
