"""The header line of a log (spec section 3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from turnlake.format.types import NEWEST_VERSION
from turnlake.format.values import Object, is_count, is_int, is_text
from turnlake.sources.logfile import decode_session_id, is_project_folder

KEYS = frozenset(
    "type version id createdAt cwd parentSession seedLength isSeeded origin delegationDepth agentPreset".split()
)
RETIRED_KEYS = frozenset(("sandboxMode", "approvalPolicy"))
ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


@dataclass(frozen=True)
class Header:
    """What the header says; a member that is missing or unusable is None.

    `refusal` is the verdict reason where the harness refuses the log for its header (bad_header,
    unknown_version, retired_header_key), `faults` say why, `notes` name what a reader should only flag.
    """

    version: int | None
    id: str | None
    created_at_ms: int | None
    cwd: str | None
    parent_session: str | None
    seed_length: int | None
    is_seeded: bool
    origin: str | None
    delegation_depth: int | None
    agent_preset: str | None
    refusal: str | None = None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_readable(self) -> bool:
        """False where the version is unknown: then no line of the log may be read."""
        return self.refusal != "unknown_version"


def is_header(value: Any) -> bool:
    """True for an object that claims to be a session header."""
    return isinstance(value, dict) and value.get("type") == "session"


def read_header(value: Object) -> Header:
    """The header in value, an object of type `session`; never raises."""
    version = value.get("version")
    version = int(version) if is_int(version) else None
    faults = list(_faults(value, version or 0))
    unknown = sorted(value.keys() - KEYS - RETIRED_KEYS)
    if unknown and version != 0:
        faults.append(f"unknown key {unknown[0]!r}")
    refusal = "bad_header" if faults else None
    if retired := sorted(value.keys() & RETIRED_KEYS):
        faults.append(f"retired key {retired[0]!r}")
        refusal = refusal or "retired_header_key"
    if version is not None and not 0 <= version <= NEWEST_VERSION:
        refusal, faults = "unknown_version", [f"format version {version}"]
    return Header(
        version=version,
        id=_when(is_text, value.get("id")),
        created_at_ms=_when(is_count, value.get("createdAt")),
        cwd=_when(is_text, value.get("cwd")),
        parent_session=_when(is_text, value.get("parentSession")),
        seed_length=_when(is_count, value.get("seedLength")),
        is_seeded="seedLength" in value or value.get("isSeeded") is True,
        origin=_when(is_text, value.get("origin")),
        delegation_depth=_when(is_count, value.get("delegationDepth")),
        agent_preset=_when(is_text, value.get("agentPreset")),
        refusal=refusal,
        faults=tuple(faults),
        notes=tuple(f"unknown key {key!r}" for key in unknown),
    )


def read_version(header: Header | None, generation: int | None) -> int:
    """The format version by which a log's events are read; 0 without a header."""
    if header is None:
        return 0
    return min(header.version if header.version is not None else generation or 0, NEWEST_VERSION)


def misplaced(header: Header, session_folder: str | None, project_folder: str | None) -> Iterator[str]:
    """How a sound header contradicts the folders its log lies in (spec 1.4.6); None is a folder that says nothing."""
    if header.refusal is not None or header.id is None:
        return
    if session_folder is not None and decode_session_id(session_folder) != header.id:
        yield f"the header's session is {header.id!r}, its folder {session_folder!r}"
    if project_folder is not None and not is_project_folder(project_folder, header.cwd):
        yield f"the header's working directory is {header.cwd!r}, its project folder {project_folder!r}"


def _when(test: Any, value: Any) -> Any:
    return value if test(value) else None


def _faults(value: Object, version: int) -> list[str]:
    """What the products refuse in a header of that version, unknown and retired keys apart."""
    faults = [
        name
        for name, test, is_required in (
            ("version", is_int, True),
            ("id", is_text, True),
            ("createdAt", is_count, True),
            ("delegationDepth", is_count, True),
            ("cwd", _is_absolute, False),
            ("parentSession", is_text, False),
            ("agentPreset", is_text, False),
            ("origin", "subagent".__eq__, False),
            ("seedLength", is_count if version < 2 else _is_forbidden, False),
            ("isSeeded", _is_bool if version >= 2 else _is_forbidden, version >= 2),
        )
        if (name in value or is_required) and test(value.get(name)) is not True
    ]
    return [f"bad or missing {name}" for name in faults]


def _is_absolute(value: object) -> bool:
    return isinstance(value, str) and ABSOLUTE.match(value) is not None


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_forbidden(value: object) -> bool:
    return False
