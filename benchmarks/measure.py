"""What the benchmarks share: the floor of a corpus, and the CPU time, wall time and memory of a command.

CPU seconds are user and system time of a command and of all the processes it waited for, so pool workers count.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Decompress every log and parse every line, one process, nothing kept. Starting Python and imports do not count.
FLOOR = """
import sys, time, pathlib, orjson, zstandard
wall, cpu = time.perf_counter(), time.process_time()
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.zstd")):
    with path.open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    for line in data.split(b"\\n"):
        if line:
            orjson.loads(line)
print(time.process_time() - cpu, time.perf_counter() - wall)
"""
SCRATCH = Path(tempfile.gettempdir()) / "turnlake-bench"


@dataclass(frozen=True)
class Measured:
    """One command: CPU and wall time in seconds, and the most memory its processes held together, in MB."""

    cpu: float
    wall: float
    peak_mb: float = 0.0


@dataclass(frozen=True)
class Row:
    """One line of a table: what was measured, the numbers as they are printed, and the numbers to reach."""

    what: str
    cpu: str
    wall: str
    target: str
    prize: str
    peak: str = ""


def print_table(unit: str, rows: Iterator[Row]) -> None:
    """Print a Markdown table, each row as soon as it is measured."""
    print(
        f"| what | CPU, {unit} | wall, {unit} | target (CPU) | prize | peak MB |\n| --- | --- | --- | --- | --- | --- |"
    )
    for row in rows:
        print(f"| {row.what} | {row.cpu} | {row.wall} | {row.target} | {row.prize} | {row.peak} |", flush=True)
    print()


def turnlake(command: str, *arguments: str | Path) -> list[str]:
    """The command line of a turnlake command."""
    return [sys.executable, "-m", "turnlake", command, *map(str, arguments)]


def make_corpus(folder: Path, version: int, sessions: int, mb: float) -> Path:
    """The sample of that version and size below a folder; written unless it is there already."""
    corpus = folder / f"v{version}-{sessions}-{mb:g}mb"
    if not corpus.exists():
        # A sample cut short by Ctrl-C must not be taken for a whole one.
        unfinished = corpus.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        options = [f"--sessions={sessions}", f"--mb={mb:g}", f"--version={version}", "--seed=1", "-q"]
        subprocess.run(turnlake("sample", unfinished, *options), check=True)
        unfinished.rename(corpus)
    return corpus


def compile_package() -> None:
    """Compile the package: an installed one has its bytecode, a checkout may not, and would be compiled in each run."""
    spec = importlib.util.find_spec("turnlake")
    assert spec is not None and spec.submodule_search_locations
    compileall.compile_dir(spec.submodule_search_locations[0], quiet=1)


def floor_of(corpus: Path, repeat: int) -> Measured:
    """The floor of a corpus: the minimum of some runs."""
    runs = []
    for _ in range(repeat):
        command = [sys.executable, "-c", FLOOR, str(corpus)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(Measured(*map(float, done.stdout.split())))
    return _best(runs)


def measure(
    command: list[str],
    repeat: int = 1,
    before: Callable[[], object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measured:
    """The minimum of some runs of a command, and the highest of their peaks; `before` is called before each run."""
    runs = []
    for _ in range(repeat):
        if before is not None:
            before()
        runs.append(_run(command, environment))
    return _best(runs)


def _best(runs: list[Measured]) -> Measured:
    return Measured(min(r.cpu for r in runs), min(r.wall for r in runs), max(r.peak_mb for r in runs))


def _run(command: list[str], environment: Mapping[str, str] | None) -> Measured:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    peak = _Peak(process.pid)
    peak.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    peak.ended.set()
    peak.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    return Measured(usage.ru_utime + usage.ru_stime, wall, peak.highest / 1e6)


class _Peak(threading.Thread):
    """Looks at the memory of a process and its children until `ended` is set."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.highest = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            self.highest = max(self.highest, _memory_of_tree(self.pid))
            self.ended.wait(0.05)


def _memory_of_tree(pid: int) -> int:
    """Proportional set size of a process and its descendants, in bytes: pages they share count once."""
    total = 0
    for member in _tree(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue  # it has just ended
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield from _tree(child)
