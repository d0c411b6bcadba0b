"""The harness, the model and the lake of one scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.follower import Follower
from e2e.harness import Harness, Release
from e2e.model import Model, serving

ROOT = Path(__file__).resolve().parent.parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--follow", action="store_true", help="follow with `build --follow`, not with build after build")
    parser.addoption("--runtimes", type=Path, default=ROOT / ".venv", help="where the environments dsh-VERSION are")


@pytest.fixture
def model() -> Iterator[Model]:
    """A model server without a script."""
    with serving() as model:
        yield model


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder the runtimes unpack themselves into, once for all scenarios."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def install(request: pytest.FixtureRequest, model: Model, cache: Path, tmp_path: Path) -> Callable[[Release], Harness]:
    """Gives the harness of a release, in the home of this scenario."""

    def harness(release: Release) -> Harness:
        program = request.config.getoption("--runtimes") / str(release) / "bin" / "dsh"
        assert program.is_file(), f"{program} is missing: `make e2e` installs it"
        (tmp_path / "work").mkdir()
        return Harness(release, program, tmp_path, cache, model.address)

    return harness


@pytest.fixture
def follower(request: pytest.FixtureRequest, tmp_path: Path) -> Follower:
    """turnlake beside the harness of this scenario."""
    return Follower(tmp_path / "dsh" / "sessions", tmp_path / "lake", request.config.getoption("--follow"))
