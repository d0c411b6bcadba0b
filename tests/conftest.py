"""Places that several tests read, and the command line as a user has it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection
from hypothesis import settings

from buckets import Bucket, new_bucket, s3_server, set_environ
from official import Official, official_database
from turnlake.models import build
from turnlake.models.model import Model

ROOT = Path(__file__).resolve().parent.parent
# The official log corpus and its companions lie beside the checkout where they are at hand.
SHARED = ROOT.parent / "shared"

# No deadline: the machines that run this are shared. TURNLAKE_PROFILE=ci looks closer, and always at the same.
settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("TURNLAKE_PROFILE", "dev"))

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def _models_read_once() -> Iterator[None]:
    """Reading the models is a quarter of a small build, and most tests build from the same files."""
    read, known = build.read_models, {}

    def read_once(root: Path, db: DuckDBPyConnection) -> list[Model]:
        files = tuple((path, path.read_bytes()) for path in sorted(root.rglob("*.sql")))
        if files not in known:
            known[files] = read(root, db)
        return list(known[files])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "read_models", read_once)
        # The lakes of tests are tiny; their queries are to be optimized as those of real ones are.
        patch.setattr(build, "TINY_BYTES", 0)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def _beside_the_checkout(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"no ../shared/{name} beside the checkout")
    return folder


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of official logs with their expected answers; skips where it is absent."""
    return _beside_the_checkout("corpus")


@pytest.fixture(scope="session")
def official(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Official]:
    """The official logs in one database, to read."""
    with official_database(corpus, tmp_path_factory.mktemp("official")) as official:
        yield official


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of small cases; skips where it is absent."""
    return _beside_the_checkout("cases")


@pytest.fixture(scope="session")
def sample() -> Path:
    """The committed sample of logs; skips while there is none."""
    folder = ROOT / "data" / "sample"
    if not any(folder.rglob("*.jsonl*")):
        pytest.skip("data/sample holds no logs")
    return folder


@pytest.fixture
def turnlake(tmp_path: Path) -> Run:
    """Runs `turnlake WORDS…` in a process of its own, in an empty folder, with no lake or source of the machine."""

    def run(*words: str, cwd: Path = tmp_path, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("TURNLAKE_", "DSH_"))}
        return subprocess.run(
            [sys.executable, "-m", "turnlake", *words],
            cwd=cwd,
            env={**inherited, "HOME": str(tmp_path), **variables},
            text=True,
            capture_output=True,
            timeout=300,
        )

    return run


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of an S3 server on loopback."""
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket of its own, where the environment says how to reach it."""
    set_environ(monkeypatch, endpoint)
    return new_bucket(endpoint)
