"""Where the time of `turnlake ingest` goes: one process, under cProfile.

Prints the CPU seconds of the floor, of importing and of the whole command without the profiler; then the shares of
modules and the functions with the most CPU time of their own. The profiler adds to every call of a Python function, so
compare shares, not seconds.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from measure import SCRATCH, compile_package, floor_of, make_corpus, measure, turnlake


def main() -> None:
    """Measure an ingest as it is, then profile another."""
    options = _options()
    if options.into:
        _profile(options.corpus, options.into)
        return
    compile_package()
    options.folder.mkdir(parents=True, exist_ok=True)
    corpus = options.corpus or make_corpus(options.folder, options.version, options.sessions, options.mb)
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        floor = floor_of(corpus, 1).cpu
        imports = measure([sys.executable, "-c", "import turnlake.cli, pyarrow.parquet, orjson, zstandard"]).cpu
        command = turnlake("ingest", corpus, "--lake", Path(scratch) / "plain", "--workers=1", "-q")
        whole = measure(command).cpu
        print(f"floor {floor:.2f} s, imports {imports:.2f} s, ingest {whole:.2f} s = {whole / floor:.2f} × floor\n")
        profile = Path(scratch) / "profile"
        # In a process of its own, so that imports are in the profile too.
        code = [sys.executable, __file__, "--into", str(profile), "--corpus", str(corpus)]
        subprocess.run(code, check=True, stdout=subprocess.DEVNULL)
        stats = pstats.Stats(str(profile))
    _print_modules(stats)
    stats.strip_dirs().sort_stats("tottime").print_stats(options.top)


def _print_modules(stats: pstats.Stats) -> None:
    """Own time by module; what is compiled (orjson, zstd, Arrow) counts to the module that calls it."""
    seconds: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        if file == "~" and callers:
            for (caller, _, _), (_, _, part, _) in callers.items():
                seconds[_module(caller)] += part
        else:
            seconds[_module(file)] += own
    total = sum(seconds.values())
    print("own CPU time by module, under the profiler:")
    for module, part in seconds.most_common(20):
        print(f"{part / total:6.1%}  {part:6.2f} s  {module}")


def _module(file: str) -> str:
    if file.startswith("<frozen importlib"):
        return "importing"
    parts = Path(file).parts
    if "turnlake" in parts:
        last = len(parts) - 1 - parts[::-1].index("turnlake")
        return "/".join(parts[last:])
    return "/".join(parts[-2:])


def _profile(corpus: Path, into: Path) -> None:
    # CPU time of the thread that converts: waiting for the disk does not count, and neither do Arrow's own threads.
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    from turnlake.cli import main as command

    command(["ingest", str(corpus), "--lake", str(into.with_name("lake")), "--workers=1", "-q"])
    profiler.disable()
    profiler.dump_stats(into)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="sessions root to read, in place of a sample")
    parser.add_argument("--sessions", type=int, default=270)
    parser.add_argument("--mb", type=float, default=60)
    parser.add_argument("--version", type=int, default=4)
    parser.add_argument("--top", type=int, default=40, help="how many functions are printed")
    parser.add_argument("--folder", type=Path, default=SCRATCH)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
