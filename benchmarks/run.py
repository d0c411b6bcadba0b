"""What a build costs, as ratios against a floor measured in the same run.

The floor is what nobody can go below: decompress every log and parse every line, one process, nothing kept.
Everything is measured in processes of its own, the best of `--repeat` runs. Run by `make bench`; with
`--mb 3000` it takes some minutes.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FLOOR = """
import sys, time, pathlib, orjson, zstandard
started = time.perf_counter()
lines = 0
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.zstd")):
    with path.open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    for line in data.split(b"\\n"):
        if line:
            orjson.loads(line)
            lines += 1
print(time.perf_counter() - started, lines)
"""

# `turnlake build` without what the check adds: nothing is noted while logs are read, nothing compared at the end.
UNCHECKED = """
import sys
from turnlake.cli import main
from turnlake.commands import steps
from turnlake.lake import convert

class NoSketch:
    def __init__(self, *about): self.see = self.see_chunks = lambda *record: None

convert.Sketch, convert.proof_of, steps.check_database = NoSketch, lambda *about: None, lambda *about: None
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Measured:
    """One command: its best wall time in seconds, and the most memory its processes held together, in MB."""

    seconds: float
    peak_mb: float


def main() -> None:
    """Make the corpus where it is not there yet, measure, print a table."""
    options = _options()
    compile_package()
    options.folder.mkdir(parents=True, exist_ok=True)
    corpus = options.folder / f"v{options.version}-{options.sessions}-{options.mb:g}mb"
    if not corpus.exists():
        subprocess.run([*_turnlake("sample"), str(corpus), *_sample_options(options)], check=True)
    stored = sum(path.stat().st_size for path in corpus.rglob("*.zstd"))
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} processors")
    print(f"corpus: v{options.version}, {options.sessions} sessions, {options.mb:g} MB, {stored / 1e6:.1f} MB stored")
    floor = min(_floor(corpus) for _ in range(options.repeat))
    print(f"floor: {floor:.2f} s\n")
    print(f"{'what':<34}{'x floor':>9}{'target':>9}{'prize':>8}{'peak MB':>9}")
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        for what, measured, target, prize in _measurements(corpus, Path(scratch) / "lake", options.repeat):
            ratio = measured.seconds / floor
            print(f"{what:<34}{ratio:>9.2f}{target:>9}{prize:>8}{measured.peak_mb:>9.0f}", flush=True)
        size = sum(path.stat().st_size for path in (Path(scratch) / "lake").glob("*/*.parquet"))
    print(f"{'Parquet size / stored logs':<34}{size / stored:>9.2f}{'0.85':>9}{'0.75':>8}")


def compile_package() -> None:
    """An installed turnlake has its bytecode; a checkout where Python may not write any would be compiled each time."""
    spec = importlib.util.find_spec("turnlake")
    assert spec is not None and spec.submodule_search_locations
    compileall.compile_dir(spec.submodule_search_locations[0], quiet=1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=270)
    parser.add_argument("--mb", type=float, default=302)
    parser.add_argument("--version", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "turnlake-bench")
    return parser.parse_args()


def _sample_options(options: argparse.Namespace) -> list[str]:
    return [f"--sessions={options.sessions}", f"--mb={options.mb}", f"--version={options.version}", "--seed=1"]


def _measurements(corpus: Path, lake: Path, repeat: int) -> Iterator[tuple[str, Measured, str, str]]:
    ingest = [*_turnlake("ingest"), str(corpus), "--lake", str(lake), "-q"]
    yield "ingest, one worker", _best([*ingest, "--workers=1"], lake, repeat), "2.8", "2.2"
    yield "ingest, two workers", _best([*ingest, "--workers=2"], lake, repeat), "2.0", "1.6"
    model = [*_turnlake("model"), "--lake", str(lake), "--threads=2", "-q"]
    yield "model, two threads", _best(model, None, repeat), "1.0", "0.6"
    build = [*_turnlake("build"), str(corpus), "--lake", str(lake), "--workers=2", "--threads=2", "-q"]
    unchecked = _best([sys.executable, "-c", UNCHECKED, *build[3:]], lake, repeat)
    yield "build, two workers", (built := _best(build, lake, repeat)), "3.5", "2.5"
    yield "of it the check", Measured(built.seconds - unchecked.seconds, built.peak_mb), "", "0.4"
    check = [*_turnlake("check"), "--lake", str(lake), "--workers=2", "-q"]
    yield "check alone, two workers", _best(check, None, repeat), "", "1.5"


def _floor(corpus: Path) -> float:
    done = subprocess.run([sys.executable, "-c", FLOOR, str(corpus)], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def _best(command: list[str], fresh: Path | None, repeat: int) -> Measured:
    """The best of some runs; the folder `fresh` is removed before each."""
    runs = []
    for _ in range(repeat):
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
        runs.append(_measure(command))
    return Measured(min(run.seconds for run in runs), max(run.peak_mb for run in runs))


def _measure(command: list[str]) -> Measured:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _memory_of_tree(process.pid))
        time.sleep(0.02)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    return Measured(seconds, peak / 1e6)


def _memory_of_tree(pid: int) -> int:
    """Proportional set size of a process and its children, in bytes: pages they share count once."""
    total = 0
    for member in (pid, *_children(pid)):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue  # it has just ended
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _turnlake(command: str) -> list[str]:
    return [sys.executable, "-m", "turnlake", command]


if __name__ == "__main__":
    main()
