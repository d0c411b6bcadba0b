"""Names replaced by hashes that only the holder of a key can recompute.

The key is made at first use and stays in the user's config folder, so that one name has one hash in everything a user
shares, and nobody else can try out guesses.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turnlake.errors import UsageError
from turnlake.files import make_folder, open_private

KEY_BYTES = 32
# 64 bits: a user has thousands of names, not billions.
SHOWN_DIGITS = 16


@dataclass(frozen=True)
class Hasher:
    """Hashes under one key, which it does not show."""

    key: bytes = field(repr=False)

    def hashed(self, text: str) -> str:
        """The text as `h_` and 16 hex digits; equal texts have equal hashes."""
        return f"h_{self._digest('name', text)}"

    @property
    def key_id(self) -> str:
        """What tells this key from others, and nothing of it."""
        return self._digest("key", "")[:8]

    def _digest(self, purpose: str, text: str) -> str:
        message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self.key, message, "sha256").hexdigest()[:SHOWN_DIGITS]


def load_hasher(environ: Mapping[str, str]) -> Hasher:
    """The hashes of the user, with a new key where there is none. Raises UsageError for a key that is no good."""
    path = key_file(environ)
    try:
        if not path.exists():
            _make_key(path)
        text, mode = path.read_text("ascii"), path.stat().st_mode
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path} can't be used as the key of hashes: {error}") from error
    if mode & 0o077:
        raise UsageError(f"{path}, the key of hashes, can be read by others: run chmod 600 on it")
    if not re.fullmatch(rf"[0-9a-f]{{{2 * KEY_BYTES}}}\n?", text):
        raise UsageError(f"{path} holds no key: remove it to get a new one, which gives other hashes")
    return Hasher(bytes.fromhex(text))


def key_file(environ: Mapping[str, str]) -> Path:
    """Where the key is: below $XDG_CONFIG_HOME if that is absolute, else ~/.config."""
    config = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (config if config.is_absolute() else Path.home() / ".config") / "turnlake" / "hash-key"


def _make_key(path: Path) -> None:
    """Makes the key; one that is there already, of a process that was faster, stays."""
    make_folder(path.parent)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(open_private(new, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES).hex().encode() + b"\n")
    try:
        path.hardlink_to(new)
    except FileExistsError:
        pass
    finally:
        new.unlink()
