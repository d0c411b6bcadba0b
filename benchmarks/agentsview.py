"""How agentsview, a local viewer for sessions of many agents, imports a corpus: the command and its environment.

docs/performance.md describes how to install it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def import_command(name: str, corpus: Path, data: Path) -> tuple[list[str], dict[str, str]] | None:
    """The command that imports all logs of a corpus into `data`, and its environment; None if it is not installed.

    The home folder is an empty one, so that no sessions of other agents are read. Without AGENTSVIEW_NO_DAEMON the work
    would be done by a server in the background, whose CPU time would not be counted.
    """
    command = shutil.which(name)
    if command is None:
        return None
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(data / "home"),
        "AGENTSVIEW_DATA_DIR": str(data),
        "AGENTSVIEW_NO_DAEMON": "1",
        "AGENTSVIEW_TELEMETRY_ENABLED": "0",
        "DEEPSEEK_HARNESS_SESSIONS_DIR": str(corpus.resolve()),
    }
    return [command, "sync"], environment
