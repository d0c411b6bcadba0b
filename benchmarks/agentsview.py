"""How agentsview, a local viewer for the sessions of many agents, imports the logs of a corpus, to measure it beside.

docs/performance.md says how to install it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def import_command(name: str, corpus: Path, data: Path) -> tuple[list[str], dict[str, str]] | None:
    """The command that imports all logs of a corpus into `data`, and its environment; None where it is not installed.

    The environment names the corpus as the only folder of sessions: a home of its own has none of other agents.
    Without AGENTSVIEW_NO_DAEMON a server it leaves running would do the work, uncounted.
    """
    command = shutil.which(name)
    if command is None:
        print(f"agentsview is not installed ({name} is no command): no comparison\n")
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
