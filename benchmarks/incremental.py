"""The rows of a build that has little or nothing to do: 10,000 logs, none or one of which changed.

CPU seconds (user and sys, all processes) and, beside them, the floor of the same corpus, for machines differ. Run by
`make bench`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from run import FLOOR, compile_package


def main() -> None:
    """Build 10,000 logs, then time builds with no news, and with one log grown by its last frames."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "turnlake-bench")
    options = parser.parse_args()
    compile_package()
    options.folder.mkdir(parents=True, exist_ok=True)
    corpus = options.folder / "v0-10000-300mb"
    if not corpus.exists():
        sample = ["sample", str(corpus), "--sessions=10000", "--mb=300", "--version=0", "--seed=1"]
        subprocess.run([sys.executable, "-m", "turnlake", *sample], check=True)
    floor = [sys.executable, "-c", FLOOR, str(corpus)]
    # The first run finds its files on disk, the others in memory.
    runs = [subprocess.run(floor, capture_output=True, text=True, check=True).stdout.split()[0] for _ in range(3)]
    print(f"corpus: 10,000 logs, floor {min(map(float, runs)):.2f} s\n")
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        lake = Path(scratch) / "lake"
        log, whole = _shorten(sorted(corpus.rglob("*.zstd"))[5000])
        try:
            _build(corpus, lake)
            print(f"{'what':<42}{'CPU s':>9}{'target':>8}{'prize':>7}")
            print(
                f"{'build, nothing changed':<42}{min(_build(corpus, lake) for _ in range(5)):>9.2f}{'0.3':>8}{'0.2':>7}"
            )
            print(f"{'build, one log grew':<42}{min(_grown(corpus, lake, log, whole)):>9.2f}{'1':>8}{'0.5':>7}")
        finally:
            log.write_bytes(whole)


def _shorten(log: Path) -> tuple[Path, bytes]:
    """Cut the last frames off a log; its path and what it was."""
    whole = log.read_bytes()
    starts = [at for at in range(len(whole)) if whole.startswith(b"\x28\xb5\x2f\xfd", at)]
    log.write_bytes(whole[: starts[len(starts) // 2]])
    return log, whole


def _grown(corpus: Path, lake: Path, log: Path, whole: bytes) -> Iterator[float]:
    """The CPU seconds of some builds, each after the log grew; between them it is as short as before."""
    short = log.read_bytes()
    for _ in range(3):
        log.write_bytes(whole)
        yield _build(corpus, lake)
        log.write_bytes(short)
        _build(corpus, lake)


def _build(corpus: Path, lake: Path) -> float:
    command = [sys.executable, "-m", "turnlake", "build", str(corpus), "--lake", str(lake), "-q"]
    before = _cpu_seconds()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return _cpu_seconds() - before


def _cpu_seconds() -> float:
    """What all child processes that ended have used so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
