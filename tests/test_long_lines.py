"""A long line takes some copies of itself in memory, however it is spelt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from logs import Session, write

LONG = 24_000_000
# What the interpreter and Arrow take, and the copies of a line that reading may hold at a time.
MOST_BYTES = 300_000_000 + 8 * LONG

CONVERT = """
import re, sys
from pathlib import Path
from turnlake.lake.convert import Batch, convert
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source
[one] = convert(Batch("p.parquet", find_logs([parse_source(sys.argv[1])]).logs), Path(sys.argv[2]))
# Not that of getrusage, which may be the peak of the process that started this one.
[peak] = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(one.row["verdict"], one.row["event_count"], 1024 * int(peak))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="nothing tells the peak of memory here")
@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("place", ["text", "stream"])
def test_memory_is_bounded(place: str, is_plain: bool, tmp_path: Path) -> None:
    words = "x" * LONG if is_plain else "x" * (LONG - 4) + "\U0001f600"
    session = Session(4).open_step()
    if place == "text":
        session.add("todo/write", {"words": words})
    else:
        chunk = {"type": "text-delta", "index": 0, "text": words}
        stream = [{"type": "chunk", "time": session.time, "chunk": chunk}]
        session.add("assistant/attempt", session.place | {"stream": stream})
    session.lines[-1] += b"" if is_plain else b"\r"
    write(tmp_path / "root", session.raw)
    command = [sys.executable, "-c", CONVERT, str(tmp_path / "root"), str(tmp_path / "parts")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    verdict, count, peak = done.stdout.split()
    assert (verdict, count) == ("clean", "4")
    assert int(peak) < MOST_BYTES
