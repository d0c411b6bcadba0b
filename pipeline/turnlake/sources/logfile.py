"""A log to read: where it lies, and what its place and its names say.

The harness names log files, session folders and project folders by rules; what a name means is decided here and
nowhere else.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from turnlake.sources.remote import Access, is_url

# What a file name in a walked folder stands for. "lookalike" is almost canonical, so the harness never wrote it as
# such; "stray" names a log in no form we read.
Role = Literal["canonical", "loose", "lookalike", "stray", "export", "archive", "store", "deleted"]

DELETED_MARKER = "session.deleted"
PROJECT_KEY_UNITS = 251

_CANONICAL = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(?:\.zstd)?")
_LOOKALIKE = re.compile(r"session(?:\.v[0-9]+)?\.jsonl(?:\.zstd)?", re.IGNORECASE | re.ASCII)
_EXPORT = re.compile(r"dsh-session-.*\.zip", re.DOTALL)
_STORE_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_UNSAFE_UNIT = re.compile(r"[^A-Za-z0-9._-]")
_ENCODED_UNIT = re.compile(r"~([0-9A-F]{4})")
# Names whose shown form could meet another's: not valid UTF-8, like what holds entries, or like a shown form.
_AMBIGUOUS = re.compile(r"[\udc80-\udcff]|\.(?:zip|db|sqlite3?)!$|#[0-9a-f]{16}$", re.IGNORECASE)
_LARGEST_INT64 = 2**63 - 1


def generation_of(file_name: str) -> int | None:
    """The generation a canonical file name states (`session.jsonl` is 0); None for any other name.

    A number beyond 64 bits, which no version will have, is given as the largest of 64 bits.
    """
    match = _CANONICAL.fullmatch(file_name)
    if match is None:
        return None
    digits = match[1] or "0"
    return int(digits) if len(digits) < 19 else _LARGEST_INT64


# Most folders hold the same few names.
@lru_cache(maxsize=256)
def role_of(file_name: str) -> Role | None:
    """What a file of that name is to a reader of logs; None where it is nothing to one (locks, staging, the rest)."""
    lowered = file_name.lower()
    if ".jsonl" in lowered:
        return _role_of_jsonl(file_name)
    if lowered.endswith(".zip"):
        return "export" if _EXPORT.fullmatch(file_name) else "archive"
    if lowered.endswith(_STORE_SUFFIXES):
        return "store"
    return "deleted" if file_name == DELETED_MARKER else None


def _role_of_jsonl(file_name: str) -> Role | None:
    if file_name.endswith(".tmp"):
        return None
    if _CANONICAL.fullmatch(file_name):
        return "canonical"
    if _LOOKALIKE.fullmatch(file_name):
        return "lookalike"
    return "loose" if file_name.endswith((".jsonl", ".jsonl.zstd")) else "stray"


def project_key(cwd: str | None) -> str:
    """Name of the folder that holds the sessions of a working directory. Not reversible."""
    if cwd is None:
        return "_no-cwd"
    key = _UNSAFE_UNIT.sub(_encode_unit, re.sub(r"[/\\:]+", "-", _utf16_units(cwd))).lstrip("-")
    return f"--{(key or 'root')[:PROJECT_KEY_UNITS]}--"


def is_project_folder(name: str, cwd: str | None) -> bool:
    """Whether a folder of that name may hold the sessions of that working directory.

    The harness names it for the directory with its links resolved. Those are unknown elsewhere, but what they commonly
    do is to put something in front (`/tmp` is `/private/tmp`), so a name that ends in the other is taken for it.
    """
    key = project_key(cwd)
    if cwd is None or not (name.startswith("--") and len(name) > len("----")):
        return name == key
    return name.endswith(key[1:]) or key.endswith(name[1:])


def encode_session_id(session_id: str) -> str:
    """Name of a session's folder. ValueError for the empty id, which has none."""
    if not session_id:
        raise ValueError("a session id is not empty")
    if session_id in (".", ".."):
        return "~002E" * len(session_id)
    return _UNSAFE_UNIT.sub(_encode_unit, _utf16_units(session_id))


def decode_session_id(folder_name: str) -> str | None:
    """The session id that a folder name encodes; None where no id gives that name."""
    units = _ENCODED_UNIT.sub(lambda match: chr(int(match[1], 16)), folder_name)
    session_id = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return session_id if session_id and encode_session_id(session_id) == folder_name else None


def _utf16_units(text: str) -> str:
    """The text with each astral character as its two surrogates."""
    if text.isascii():
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(data[i] | data[i + 1] << 8) for i in range(0, len(data), 2))


def _encode_unit(match: re.Match[str]) -> str:
    return f"~{ord(match[0]):04X}"


def shown_path(path: str) -> str:
    """A path of the file system as valid Unicode, different for different paths.

    Bytes that are not UTF-8 become U+FFFD; a part of the path that this changes, or that could be mistaken for such
    a part or for the inside of an archive or store, gets `#` and 16 hex digits of its SHA-256.
    """
    if path.isascii() and "#" not in path and "!" not in path:
        return path
    return "/".join(map(_shown_part, path.split("/")))


def _shown_part(part: str) -> str:
    if not _AMBIGUOUS.search(part):
        return part
    data = part.encode("utf-8", "surrogateescape")
    return f"{data.decode('utf-8', 'replace')}#{hashlib.sha256(data).hexdigest()[:16]}"


# Asked for several times a log by each build, also by one that finds nothing new.
@lru_cache(maxsize=1 << 17)
def _log_id(source: str, path: str) -> str:
    return hashlib.sha256(f"{source}\0{path}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log to read. `path` names it below its source, `os_path` and `entry` say what to open.

    `os_path` of an object is its URL; `access` is what else opening it takes, and is never shown or stored.
    """

    source: str
    machine: str | None
    path: str
    os_path: str
    entry: str | None
    size: int
    mtime_ns: int
    access: Access = field(default=(), repr=False, compare=False)
    # Then `entry` is the name of the session's folder if it had one.
    is_in_store: bool = False

    @property
    def log_id(self) -> str:
        """What identifies the log in a lake: 16 hex digits over the source's name and the path."""
        return _log_id(self.source, self.path)

    @property
    def file(self) -> Path:
        """The absolute path to open; of a log in an archive or store that one's."""
        return Path(self.os_path)

    @property
    def is_remote(self) -> bool:
        """Whether the log is an object in a store."""
        return is_url(self.os_path)

    @property
    def place(self) -> str:
        """Where the log is, as findings name it: the shown absolute path, `file!/entry` in an archive or store."""
        shown = shown_path(self.os_path)
        return shown if self.entry is None else f"{shown}!/{self.entry}"

    @property
    def file_name(self) -> str:
        """Name of the file, or of the entry without its folders."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folder the log lies in, below its source: all generations of a session share it."""
        return self.path.rpartition("/")[0]

    @property
    def generation(self) -> int | None:
        """The generation the name states; None for a name that is not canonical."""
        return None if self.is_in_store else generation_of(self.file_name)

    @property
    def is_canonical(self) -> bool:
        """Whether the harness would take the file for a session's log by its name."""
        return self.generation is not None
