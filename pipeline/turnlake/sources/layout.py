"""The names the harness gives to logs, project folders and session folders, and what other names mean."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Literal

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
