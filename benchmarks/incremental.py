"""What a build costs that has little or nothing to do: of 10,000 logs none changed, or one grew by 10 KB.

CPU seconds, and beside them the floor of the same corpus, for machines differ. Run by `make bench`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import SCRATCH, Measured, Row, compile_package, floor_of, make_corpus, measure, print_table, turnlake

FRAME = b"\x28\xb5\x2f\xfd"  # how a frame of zstd begins
GROWTH = 10_000


def main() -> None:
    """Build all logs, then measure builds with no news, and with one log grown by its last frames."""
    options = _options()
    compile_package()
    options.folder.mkdir(parents=True, exist_ok=True)
    for version in options.versions:
        corpus = make_corpus(options.folder, version, options.sessions, options.mb)
        floor = floor_of(corpus, options.repeat)
        print(f"Format version {version}: {options.sessions:,} logs, {options.mb:g} MB decoded;")
        print(f"floor {floor.cpu:.2f} s of CPU, {floor.wall:.2f} s\n")
        with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
            print_table("s", _rows(corpus, Path(scratch) / "lake", options.repeat))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000, help="logs of each corpus")
    parser.add_argument("--mb", type=float, default=300, help="decoded size of each corpus")
    parser.add_argument("--versions", type=_versions, default=[0], help="format versions, such as 4,0")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the minimum counts")
    parser.add_argument("--folder", type=Path, default=SCRATCH, help="where corpora are kept and lakes are built")
    return parser.parse_args()


def _versions(text: str) -> list[int]:
    return [int(version) for version in text.split(",")]


def _rows(corpus: Path, lake: Path, repeat: int) -> Iterator[Row]:
    build = turnlake("build", corpus, "--lake", lake, "-q")
    log, whole, short = _growing(corpus)

    def shorten() -> None:
        log.write_bytes(short)
        measure(build)
        log.write_bytes(whole)

    try:
        log.write_bytes(short)
        yield _row("`build` of everything", measure(build), "", "")
        yield _row("`build`, nothing changed", measure(build, repeat), "0.3", "0.2")
        grew = measure(build, repeat, shorten)
        yield _row(f"`build`, one log grew by {(len(whole) - len(short)) / 1000:.0f} KB", grew, "1", "0.5")
    finally:
        log.write_bytes(whole)


def _row(what: str, took: Measured, target: str, prize: str) -> Row:
    return Row(what, f"{took.cpu:.2f}", f"{took.wall:.2f}", target, prize, f"{took.peak_mb:.0f}")


def _growing(corpus: Path) -> tuple[Path, bytes, bytes]:
    """A log from the middle of the corpus: its path, its bytes, and its bytes without about the last 10 KB."""
    logs = sorted(corpus.rglob("*.zstd"))
    large = [log for log in logs if log.stat().st_size > 2 * GROWTH] or logs
    log = large[len(large) // 2]
    whole = log.read_bytes()
    starts = [at for at in range(1, len(whole)) if whole.startswith(FRAME, at)]
    return log, whole, whole[: min(starts, key=lambda at: abs(len(whole) - at - GROWTH))]


if __name__ == "__main__":
    main()
