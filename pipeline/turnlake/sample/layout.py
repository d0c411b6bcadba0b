"""Where a sessions root keeps a log: project folders, session folders, file names."""

from __future__ import annotations

import re
from pathlib import Path

_SEPARATORS = re.compile(r"[/\\:]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_KEY_LENGTH = 251


def log_path(root: Path, cwd: str | None, session_id: str, version: int, *, raw: bool) -> Path:
    """The path of a session's log of one format version below a sessions root."""
    return root / project_folder(cwd) / encoded_id(session_id) / file_name(version, raw=raw)


def project_folder(cwd: str | None) -> str:
    """The folder of a working directory: `/home/ana/my app` is `--home-ana-my~0020app--`."""
    if cwd is None:
        return "_no-cwd"
    key = _UNSAFE.sub(_escaped, _SEPARATORS.sub("-", cwd)).lstrip("-") or "root"
    return f"--{key[:_KEY_LENGTH]}--"


def encoded_id(session_id: str) -> str:
    """The folder of a session id; no two ids share one."""
    if session_id in {".", ".."}:
        return "~002E" * len(session_id)
    return _UNSAFE.sub(_escaped, session_id)


def file_name(version: int, *, raw: bool) -> str:
    """The file name of a generation: version 0 has no number in it."""
    return f"session{f'.v{version}' if version else ''}.jsonl{'' if raw else '.zstd'}"


def _escaped(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"~{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
