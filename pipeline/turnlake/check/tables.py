"""What the tables of a database say of each session, put as the proof of a log puts it.

It reads what users read: messages, transcript, attempts and closers of schema marts, and the payloads of headers,
which no mart holds. From the log's proof it takes nothing but the prefixes to look at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from turnlake.check import scans
from turnlake.check.scans import Scans
from turnlake.messages.digest import Chain, digest_of, json_bytes, message_digest
from turnlake.messages.proof import Checkpoint, Closer, Proof, closers_digest, used_by
from turnlake.messages.usage import Tokens

# Types that give no message where their content is empty.
_MAY_BE_SILENT = frozenset(("assistant/message", "system/message", "developer/message"))
_EMPTY = b"[]"
# Two printers need not write control characters the same.
_ESCAPE = b"\\u"


Names = tuple[str | None, str | None, str | None]


class Node(NamedTuple):
    """A row of the transcript: its key on the surface, what it gives to the model (None: nothing), when it goes."""

    seq: int
    order_key: int
    given: bytes | None
    shadowed_by_seq: int | None


@dataclass
class Told:
    """All that the tables say of one session."""

    # Digests of the messages at the end, by position.
    shown: dict[int, bytes] = field(default_factory=dict)
    # Of every message of the transcript, by seq: id, role and kind of source, and the digest of it all.
    messages: dict[int, tuple[Names, bytes]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    headers: list[tuple[int, str]] = field(default_factory=list)
    calls: list[tuple[str, Tokens]] = field(default_factory=list)
    closers: list[Closer] = field(default_factory=list)

    def proof(self, prefixes: Iterable[int]) -> Proof:
        """The same as a proof; its last checkpoint is of the messages at the end, by their positions."""
        checkpoints = tuple(self._before(prefixes))
        shown = Chain()
        shown.put(slice(0, 0), [digest for _, digest in sorted(self.shown.items())])
        chain, count = shown.head
        end = Checkpoint(None, count, chain, self.headers[-1][1] if self.headers else None)
        return Proof((*checkpoints, end), shown.trail, closers_digest(self.closers), used_by(self.calls))

    def _before(self, prefixes: Iterable[int]) -> Iterator[Checkpoint]:
        """A checkpoint before each of the rising seqs: nodes come at their seq, and go at that of what shadows them."""
        steps = sorted(
            [(node.seq, True, node) for node in self.nodes]
            + [(node.shadowed_by_seq, False, node) for node in self.nodes if node.shadowed_by_seq is not None],
            key=lambda step: step[:2],
        )
        surface, seen, headers = _Surface(), 0, 0
        for prefix in prefixes:
            while seen < len(steps) and steps[seen][0] < prefix:
                surface.turn(*steps[seen][1:])
                seen += 1
            while headers < len(self.headers) and self.headers[headers][0] < prefix:
                headers += 1
            chain, count = surface.chain.head
            yield Checkpoint(prefix, count, chain, self.headers[headers - 1][1] if headers else None)

    def place(self, position: int, seq: int, names: Names) -> None:
        """A message at the end that is told without its content."""
        known, digest = self.messages.get(seq, (None, b""))
        self.shown[position] = digest if known == names else message_digest(seq, names, None)


class _Surface:
    """Nodes in order of their keys, and the chain of their messages."""

    def __init__(self) -> None:
        self.chain = Chain()
        self._keys: list[tuple[int, int]] = []

    def turn(self, comes: bool, node: Node) -> None:
        """Let a node come or go."""
        key = (node.order_key, node.seq)
        at = bisect_left(self._keys, key)
        if comes:
            self._keys.insert(at, key)
            self.chain.put(slice(at, at), [node.given])
        elif self._keys[at : at + 1] == [key]:
            del self._keys[at]
            self.chain.put(slice(at, at + 1), [])


def read_tables(rows: Scans, *, is_thorough: bool = False, is_parsed: bool = False) -> Mapping[str, Told]:
    """What the tables say of the sessions that are scanned, by session.

    A message at the end is taken from the transcript, where its seq and its names say which it is. Thoroughly, its
    content is read from `marts.messages` as well. Where `is_parsed`, all content is parsed and printed anew, so that
    texts are equal that are the same JSON.
    """
    told: defaultdict[str, Told] = defaultdict(Told)
    for _ in rows.pieces():
        _read_content(told, rows, is_thorough, is_parsed)
    if not is_thorough:
        for session, position, seq, *names in rows(scans.PLACES):
            told[session].place(position, seq, (names[0], names[1], names[2]))
    for session, attempt_id, *tokens in rows(scans.ATTEMPTS):
        told[session].calls.append((attempt_id.removeprefix(f"{session}/"), Tokens(*tokens)))
    for session, *closer in rows(scans.CLOSERS):
        told[session].closers.append(tuple(closer))
    return told


def _read_content(told: Mapping[str, Told], rows: Scans, is_thorough: bool, is_parsed: bool) -> None:
    """What is told by the payloads at hand."""
    for session, seq, order_key, shadowed_by_seq, kind, *names, content in rows(scans.TRANSCRIPT):
        one, known, text = told[session], (names[0], names[1], names[2]), _printed(content, is_parsed)
        digest = message_digest(seq, known, text)
        one.messages[seq] = (known, digest)
        is_silent = text == _EMPTY and kind in _MAY_BE_SILENT
        is_message = known[:2] != (None, None) or (text or b"").startswith(b"[")
        one.nodes.append(Node(seq, order_key, digest if is_message and not is_silent else None, shadowed_by_seq))
    if is_thorough:
        for session, position, seq, *names, content in rows(scans.MESSAGES):
            known = (names[0], names[1], names[2])
            told[session].shown[position] = message_digest(seq, known, _printed(content, is_parsed))
    for session, seq, payload in rows(scans.HEADERS):
        told[session].headers += _header(seq, payload)


def _printed(content: bytes | None, is_parsed: bool) -> bytes | None:
    """The content, in the words of this program where another might have written it otherwise."""
    if content is not None and (is_parsed or _ESCAPE in content):
        return json_bytes(orjson.loads(content))
    return content


def _header(seq: int, payload: str) -> Iterator[tuple[int, str]]:
    """The header in a payload, without what says nothing: no flag that is true, no prompt, no tool."""
    data = orjson.loads(payload)
    header = data.get("header") if isinstance(data, dict) else None
    if not isinstance(header, dict):
        return
    kept = {name: header[name] for name in ("config", "adapterDefaults", "system", "tools") if name in header}
    defaults = kept.get("adapterDefaults")
    if not isinstance(defaults, dict) or True not in [value for value in defaults.values() if value is True]:
        kept.pop("adapterDefaults", None)
    kept = {name: value for name, value in kept.items() if value or name in ("config", "adapterDefaults")}
    yield seq, digest_of(kept)
