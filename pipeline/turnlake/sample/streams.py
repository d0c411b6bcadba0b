"""How a provider's stream gets into a log: as chunk events, or embedded in the message it ends in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from turnlake.sample.log import Log
from turnlake.sample.shapes import EMBEDDED_STREAMS, Json

# The writer of versions 0 and 1 packs runs of at least this many deltas into one row.
PACKED_FROM = 3
ROW_TYPES = {"text": "text-chunks", "reasoning": "reasoning-chunks", "tool-call": "tool-call-chunks"}


@dataclass(frozen=True)
class Block:
    """A content block and the tokens that it arrives in; a tool call's tokens are those of its arguments."""

    kind: str
    tokens: Sequence[str]
    text: str
    call_id: str | None = None
    name: str | None = None

    def content(self) -> Json:
        """The block as a message holds it."""
        if self.kind == "tool-call":
            return {"type": "tool-call", "id": self.call_id, "name": self.name, "arguments": self.text}
        return {"type": self.kind, "text": self.text}

    def delta(self, index: int, token: str) -> Json:
        """One token of it as a stream chunk."""
        if self.kind == "tool-call":
            call = {"id": self.call_id, "name": self.name}
            return {"type": "tool-call-delta", "index": index, **call, "argumentsDelta": token}
        return {"type": f"{self.kind}-delta", "index": index, "text": token}

    def run(self, index: int, dt: Sequence[int], tokens: Sequence[str]) -> Json:
        """The fields of a run of its tokens, in the order in which the harness writes them."""
        if self.kind == "tool-call":
            return {"index": index, "dt": dt, "id": self.call_id, "name": self.name, "args": tokens}
        return {"index": index, "dt": dt, "texts": tokens}


class Stream(Protocol):
    """One provider stream. Times come from the log's clock."""

    def chunk(self, chunk: Json) -> None:
        """A chunk that is no delta: a block's start or end, usage, finish."""

    def run(self, block: Block, index: int, tokens: Sequence[str], dt: Sequence[int]) -> None:
        """Deltas of one block, `dt[k]` milliseconds between tokens k and k + 1; the clock goes on with them."""

    def settle(self, message: Json) -> int:
        """The stream ended in an `assistant/message` with this data; returns its seq."""

    def fail(self) -> None:
        """The stream ended without a message."""


def open_stream(log: Log, turn: int, step: int) -> Stream:
    """A new stream in the form of the log's version."""
    kind = EmbeddedStream if log.header.version >= EMBEDDED_STREAMS else ChunkedStream
    return kind(log, turn, step)


class ChunkedStream:
    """Versions 0 and 1: every chunk is an event at once, runs of deltas share a packed row."""

    def __init__(self, log: Log, turn: int, step: int) -> None:
        self._log = log
        self._place = {"turn": turn, "step": step}
        self._first = log.seq

    def chunk(self, chunk: Json) -> None:
        """One event."""
        self._log.event("assistant/chunk", {**self._place, "chunk": chunk})
        self._log.tally.chunks += 1

    def run(self, block: Block, index: int, tokens: Sequence[str], dt: Sequence[int]) -> None:
        """One packed row, or single events where the run is short."""
        if len(tokens) < PACKED_FROM:
            for token, pause in zip(tokens, [0, *dt], strict=True):
                self._log.wait(pause)
                self.chunk(block.delta(index, token))
            return
        data = {**self._place, **block.run(index, dt, tokens)}
        self._log.row(ROW_TYPES[block.kind], data, len(tokens), self._log.time)
        self._log.tally.chunks += len(tokens)
        self._log.wait(sum(dt))

    def settle(self, message: Json) -> int:
        """The message names the events of its stream."""
        sources = range(self._first, self._log.seq)
        return self._log.append("assistant/message", {**self._place, **message}, sources)

    def fail(self) -> None:
        """Nothing more to write: the chunks are in the log."""


class EmbeddedStream:
    """Versions 2 and up: the stream is written when it settles, as a part of the event it settles in."""

    def __init__(self, log: Log, turn: int, step: int) -> None:
        self._log = log
        self._place = {"turn": turn, "step": step}
        self._records: list[Json] = []
        self._chunks = 0

    def chunk(self, chunk: Json) -> None:
        """One record of the stream."""
        self._records.append({"type": "chunk", "time": self._log.time, "chunk": chunk})
        self._chunks += 1

    def run(self, block: Block, index: int, tokens: Sequence[str], dt: Sequence[int]) -> None:
        """One record of the stream."""
        record = {"type": ROW_TYPES[block.kind], "time0": self._log.time, **block.run(index, dt, tokens)}
        self._records.append(record)
        self._chunks += len(tokens)
        self._log.wait(sum(dt))

    def settle(self, message: Json) -> int:
        """The message holds its stream."""
        self._log.tally.chunks += self._chunks
        return self._log.append("assistant/message", {**self._place, **message, "stream": self._records})

    def fail(self) -> None:
        """An event of its own holds the stream."""
        self._log.tally.chunks += self._chunks
        self._log.event("assistant/attempt", {**self._place, "stream": self._records})
