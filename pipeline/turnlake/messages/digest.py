"""Digests of what a model sees: of one message, of a list of them under way, of anything that is JSON."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import orjson

from turnlake.format.values import scrubbed

START = bytes(32)


def json_bytes(value: Any) -> bytes:
    """The value as JSON, members in their order, U+FFFD for lone surrogates, integers beyond 64 bits as floats."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(orjson.loads(json.dumps(scrubbed(value))))


def digest_of(value: Any) -> str:
    """64 bits of the digest of a JSON value whose members may stand in any order, as 16 hex digits."""
    return sha256(orjson.dumps(orjson.loads(json_bytes(value)), option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def message_digest(seq: int, names: tuple[str | None, str | None, str | None], content: bytes | None) -> bytes:
    """The digest of a message: the seq of its event; id, role and kind of source; its content as JSON, if any."""
    head = sha256(json_bytes([seq, *names]))
    if content is not None:
        head.update(content)
    return head.digest()


class Chain:
    """A list of messages as a chain of digests: each link is made of the one before and of a message.

    A place may be held by what gives no message (None). Only links behind the first place that changed are made anew.
    """

    def __init__(self) -> None:
        self._digests: list[bytes | None] = []
        self._links: list[tuple[bytes, int]] = []

    def put(self, place: slice, digests: list[bytes | None]) -> None:
        """Put these in place of those in the slice."""
        self._digests[place] = digests
        del self._links[place.start :]

    @property
    def head(self) -> tuple[str, int]:
        """64 bits of the last link as 16 hex digits, and how many messages it stands for."""
        link, count = self._links[-1] if self._links else (START, 0)
        for digest in self._digests[len(self._links) :]:
            if digest is not None:
                link, count = sha256(link + digest).digest(), count + 1
            self._links.append((link, count))
        return link.hex()[:16], count

    @property
    def trail(self) -> str:
        """32 bits of the link of each message as 8 hex digits, all in one text."""
        self.head  # noqa: B018 - makes the links
        return "".join(
            link.hex()[:8] for (link, _), digest in zip(self._links, self._digests, strict=True) if digest is not None
        )
