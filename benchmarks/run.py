"""What turnlake costs, in CPU seconds over a floor measured in the same run, for logs of two format versions.

The floor is what nobody can go below: decompress every log and parse every line, one process, nothing kept.
Everything is measured in processes of its own, the minimum of `--repeat` runs. Run by `make bench`; with
`--mb 3000` it takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentsview import import_command
from measure import (
    SCRATCH,
    Measured,
    Row,
    compile_package,
    floor_of,
    make_corpus,
    measure,
    print_table,
    turnlake,
)


def main() -> None:
    """Write the corpora that are not there yet, measure, print a table for each."""
    options = _options()
    compile_package()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} processors\n")
    if shutil.which(options.agentsview) is None:
        print(f"agentsview is not installed (no command {options.agentsview}), so it is not compared\n")
    for version in options.versions:
        with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
            _bench(version, options, Path(scratch))
    print("Small builds, in CPU seconds:\n")
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        print_table("s", _small(options, Path(scratch)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=270, help="logs of each corpus")
    parser.add_argument("--mb", type=float, default=302, help="decoded size of each corpus")
    parser.add_argument("--versions", type=_versions, default=[4, 0], help="format versions, such as 4,0")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the minimum counts")
    parser.add_argument("--folder", type=Path, default=SCRATCH, help="where corpora are kept and lakes are built")
    parser.add_argument("--agentsview", default="agentsview", help="command to compare with, where it is installed")
    return parser.parse_args()


def _versions(text: str) -> list[int]:
    return [int(version) for version in text.split(",")]


def _bench(version: int, options: argparse.Namespace, scratch: Path) -> None:
    corpus = make_corpus(options.folder, version, options.sessions, options.mb)
    stored = sum(path.stat().st_size for path in corpus.rglob("*.zstd"))
    floor = floor_of(corpus, options.repeat)
    print(
        f"Format version {version}: {options.sessions} logs, {options.mb:g} MB decoded, {stored / 1e6:.1f} MB stored;"
    )
    print(f"floor {floor.cpu:.2f} s of CPU, {floor.wall:.2f} s\n")
    print_table("× floor", _rows(corpus, stored, floor, options, scratch))


def _rows(corpus: Path, stored: int, floor: Measured, options: argparse.Namespace, scratch: Path) -> Iterator[Row]:
    lake = scratch / "lake"
    repeat = options.repeat

    def ratio(what: str, took: Measured, target: str = "", prize: str = "") -> Row:
        cpu, wall = took.cpu / floor.cpu, took.wall / floor.wall
        return Row(what, f"{cpu:.2f}", f"{wall:.2f}", target, prize, f"{took.peak_mb:.0f}")

    def fresh() -> None:
        shutil.rmtree(lake, ignore_errors=True)

    ingest = turnlake("ingest", corpus, "--lake", lake, "--workers=1", "-q")
    target = "4.0" if corpus.name.startswith("v0") else "3.8"
    yield ratio("`ingest`, one worker", measure(ingest, repeat, fresh), target, "3.2")
    model = turnlake("model", "--lake", lake, "--threads=2", "-q")
    yield ratio("`model`, two threads", measure(model, repeat))
    build = turnlake("build", corpus, "--lake", lake, "--workers=2", "--threads=2", "-q")
    yield ratio("`build` with proof, two workers", measure(build, repeat, fresh), "6", "5")
    check = turnlake("check", "--lake", lake, "--workers=2", "-q")
    yield ratio("`check` alone, two workers", measure(check, repeat), "4", "3.5")
    size = sum(path.stat().st_size for path in lake.glob("*/*.parquet"))
    yield Row("Parquet size / stored logs", f"{size / stored:.2f}", "", "0.85", "0.75")
    yield from (ratio(what, took) for what, took in _agentsview(corpus, options, scratch))


def _agentsview(corpus: Path, options: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, Measured]]:
    data = scratch / "agentsview"
    found = import_command(options.agentsview, corpus, data)
    if found is None:
        return
    command, environment = found
    took = measure(command, options.repeat, lambda: shutil.rmtree(data, ignore_errors=True), environment)
    yield "agentsview, import of all logs", took


def _small(options: argparse.Namespace, scratch: Path) -> Iterator[Row]:
    """What does not depend on the corpus: a lake of one small log, and the models of 60 MB, for each version."""
    for version in options.versions:
        lake = scratch / f"v{version}"

        def seconds(what: str, took: Measured, target: str, prize: str, version: int = version) -> Row:
            peak = f"{took.peak_mb:.0f}"
            return Row(f"{what}, v{version}", f"{took.cpu:.2f}", f"{took.wall:.2f}", target, prize, peak)

        def fresh(lake: Path = lake) -> None:
            shutil.rmtree(lake, ignore_errors=True)

        small = make_corpus(options.folder, version, 1, 0.03)
        build = turnlake("build", small, "--lake", lake, "-q")
        yield seconds("`build` of one small log", measure(build, options.repeat, fresh), "0.8", "0.5")
        fresh()
        medium = make_corpus(options.folder, version, 270, 60)
        measure(turnlake("ingest", medium, "--lake", lake, "-q"))
        model = turnlake("model", "--lake", lake, "-q")
        yield seconds("`model` of 60 MB", measure(model, options.repeat), "0.9", "0.5")


if __name__ == "__main__":
    main()
