"""A page as a real browser shows it: its DOM, what it logs, what it asks the network for, a picture of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# The browser's own calls home are no business of the page, and no name is looked up for either.
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync "
    "--disable-component-update --hide-scrollbars --enable-logging=stderr --v=0 --virtual-time-budget=2000"
).split()
# A page of a file has an origin of its own; what the browser does by itself has none.
ORIGIN_OF_FILES = "null"


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page. `requests` are the addresses that the page itself asked for."""

    dom: str
    console: Sequence[str]
    requests: Sequence[str]


class Chromium:
    """Headless Chromium with a profile in a folder that is thrown away."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder

    def see(self, page: Path) -> Seen:
        """Opens the page."""
        log = self.folder / "net.json"
        done = self._run(page, "--dump-dom", f"--log-net-log={log}")
        events = json.loads(log.read_text(encoding="utf-8"))["events"]
        asked = [event["params"] for event in events if "initiator" in event.get("params", {})]
        requests = [one["url"] for one in asked if one["initiator"] == ORIGIN_OF_FILES]
        return Seen(done.stdout, re.findall(r"CONSOLE.*", done.stderr), requests)

    def picture(self, page: Path, width: int, height: int, *flags: str) -> bytes:
        """A PNG of the page."""
        file = self.folder / "picture.png"
        self._run(page, f"--screenshot={file}", f"--window-size={width},{height}", *flags)
        return file.read_bytes()

    def paper(self, page: Path) -> bytes:
        """The page printed, a PDF."""
        file = self.folder / "paper.pdf"
        self._run(page, f"--print-to-pdf={file}")
        return file.read_bytes()

    def _run(self, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        words = [
            self.program,
            *FLAGS,
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={self.folder / 'profile'}",
        ]
        return subprocess.run(
            [*words, *flags, page.resolve().as_uri()], text=True, capture_output=True, check=True, timeout=120
        )


def find_chromium(folder: Path) -> Chromium:
    """The browser of this machine; skips where it has none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser here: none of {', '.join(NAMES)} is on the PATH")
    return Chromium(program, folder)
