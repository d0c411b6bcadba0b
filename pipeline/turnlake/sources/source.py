"""Where logs are looked for: what a user names as SOURCE, and the place the harness writes to by default."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from turnlake.errors import SourceError
from turnlake.sources.logfile import shown_path
from turnlake.sources.remote import Place, Unreached, is_url, local_path, look, parse_url

_NAMED = re.compile(r"([A-Za-z0-9._-]+)=(.+)", re.DOTALL)
_KINDS = "a sessions root, a project folder, a session folder, a log file or an export ZIP"


@dataclass(frozen=True, slots=True)
class Source:
    """A place to look for logs: its name in the lake, the machine it stands for, its absolute path or its URL."""

    name: str
    machine: str | None
    root: Path | Place

    @property
    def place(self) -> str:
        """Where it is, as people see it."""
        return self.root.url if isinstance(self.root, Place) else shown_path(str(self.root))

    @property
    def identity(self) -> object:
        """The same for two names of one place."""
        return self.root if isinstance(self.root, Place) else os.path.realpath(self.root)


class Probe(NamedTuple):
    """A default place: what led to it, the path it gives (None: it gives none), whether it is the one used."""

    origin: str
    path: Path | None
    is_used: bool


def parse_source(text: str) -> Source:
    """A SOURCE as typed: `NAME=PATH` names a machine, anything else is a path and its absolute form the name.

    Instead of the path there may be a URL of an object store, or a `file:` URL. A text that is itself an existing path
    is never taken apart. SourceError where nothing usable is there.
    """
    if not text.strip():
        raise SourceError(f"SOURCE is blank. Name {_KINDS}; `turnlake doctor` shows which places are looked at.")
    machine, path_text = None, text
    if not os.path.lexists(text) and (named := _NAMED.fullmatch(text)):
        machine, path_text = named[1], named[2]
    if is_url(path_text):
        local = local_path(path_text)
        if local is None:
            return _remote_source(parse_url(path_text), machine)
        path_text = local
    root = _absolute(Path(path_text) if os.path.lexists(path_text) else _expanded(path_text, Path.home()))
    _require_readable_kind(root)
    return Source(machine or shown_path(str(root)), machine, root)


def _remote_source(root: Place, machine: str | None) -> Source:
    try:
        look(root)
    except FileNotFoundError as error:
        raise SourceError(
            f"SOURCE {root.url} can't be used: no object is there or below it. Check bucket, prefix and endpoint; "
            "an emptied place is no reason to call its logs deleted."
        ) from error
    except Unreached as error:
        raise SourceError(
            f"SOURCE {root.url} can't be used: {error.strerror}. Check the endpoint (AWS_ENDPOINT_URL), the network "
            "and the credentials; the lake stays as it was."
        ) from error
    return Source(machine or root.url, machine, root)


def default_source(environ: Mapping[str, str]) -> Source:
    """The sessions of the harness: `$DSH_HOME/sessions`, else `~/.dsh/sessions`. SourceError where it is not there."""
    [used] = [probe for probe in default_probes(environ) if probe.is_used]
    if used.path is None or not used.path.exists():
        raise SourceError(
            f"no logs where the harness keeps them by default: {used.origin} gives {str(used.path)!r}, which is not "
            f"there. Name a SOURCE ({_KINDS}), or set DSH_HOME."
        )
    return parse_source(str(used.path))


def default_probes(environ: Mapping[str, str]) -> tuple[Probe, ...]:
    """The default places in the order they are tried; exactly one is used, whether or not it exists."""
    user_home = Path(environ.get("HOME") or Path.home())
    configured = environ.get("DSH_HOME", "").strip()
    by_variable = _absolute(_expanded(configured, user_home) / "sessions") if configured else None
    return (
        Probe("$DSH_HOME/sessions", by_variable, by_variable is not None),
        Probe("~/.dsh/sessions", _absolute(user_home / ".dsh" / "sessions"), by_variable is None),
    )


def _expanded(path: str, user_home: Path) -> Path:
    # The harness expands the user's own home only, written with either separator.
    return user_home / path[2:] if path == "~" or path.startswith(("~/", "~\\")) else Path(path)


def _absolute(path: Path) -> Path:
    # One spelling for one folder, as it names the source; a link keeps its name unless `..` asks where it leads.
    return path.resolve() if ".." in path.parts else path.absolute()


def merge_sources(sources: Iterable[Source]) -> tuple[Source, ...]:
    """The sources, each root once, a named one before its unnamed double.

    SourceError where one name stands for two roots, or one root has two NAMEs.
    """
    by_root: dict[object, Source] = {}
    by_machine: dict[str, Source] = {}
    for source in sources:
        real = source.identity
        known = by_root.setdefault(real, source)
        if source.machine is None:
            continue
        if known.machine not in (None, source.machine):
            raise SourceError(f"{source.place!r} is named {known.machine} and {source.machine}. Give it one NAME.")
        namesake = by_machine.setdefault(source.machine, source)
        if namesake.identity != real:
            raise SourceError(
                f"{source.machine} names {namesake.place!r} and {source.place!r}. Give each its own NAME."
            )
        by_root[real] = namesake
    _require_own_names(by_root.values())
    return tuple(by_root.values())


def _require_own_names(sources: Iterable[Source]) -> None:
    # One URL may lead to two places, by two endpoints, of which its name tells nothing.
    seen: set[str] = set()
    for source in sources:
        if source.name in seen:
            raise SourceError(f"{source.place} is named twice, with other options. Name each: NAME=URL.")
        seen.add(source.name)


def _require_readable_kind(root: Path) -> None:
    try:
        mode = root.stat().st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise SourceError(
            f"SOURCE {str(root)!r} can't be used: {reason}. A SOURCE is {_KINDS}; "
            "`turnlake doctor` shows which places are looked at."
        ) from error
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise SourceError(
            f"SOURCE {str(root)!r} is neither a folder nor a regular file. Write the log to a file and name that."
        )
