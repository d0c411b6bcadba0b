"""The readable lines of a log: an event, or chunks of a stream that have a line of their own (v0 and v1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from turnlake.format.chunks import PACKED_TYPES, StreamSummary, delta_of
from turnlake.format.source_seqs import Ranges, expand
from turnlake.format.values import Object


class Order(NamedTuple):
    """An order of an event's members: whether it is a surface event's, and what follows `data` in the line."""

    is_surface: bool
    follower: bytes | None


# The orders in which harnesses write the members of events: any other line is kept whole.
ORDERS = {
    ("type", "seq", "time", "data"): Order(False, None),
    ("type", "seq", "time", "data", "surfaceOp"): Order(True, b',"surfaceOp":'),
    ("type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp"): Order(True, b',"sourceEventSeqs":'),
    ("type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs"): Order(True, b',"surfaceOp":'),
    ("type", "seq", "time", "surfaceOp", "data"): Order(True, None),
    ("type", "seq", "time", "surfaceOp", "sourceEventSeqs", "data"): Order(True, None),
}


@dataclass(slots=True)
class EventLine:
    """A line that is one event, in the shape of today: `event` is a mapping with `type`, `seq`, `time`, `data`, ….

    `sources` are its decoded sourceEventSeqs, `stream` the summary of the stream in it, None where it has none or it
    is malformed. `is_plain` says that the line is written just as the harness writes it, so that the event tells all of
    it; `is_odd` that only the standard parser could read it: then strings may hold lone surrogates.
    `normalised_from` is legacy or tutorial where the line was written in such a shape. `time_ms` is Unix ms.
    """

    line: int
    offset: int
    raw: bytes
    is_provisional: bool
    branch: int
    seq: int
    time_ms: int | None
    event: Object
    is_plain: bool
    is_odd: bool
    sources: Ranges | None = None
    stream: StreamSummary | None = None
    is_known: bool = True
    normalised_from: str | None = None

    @property
    def count(self) -> int:
        """Number of events in the line."""
        return 1

    def logical(self) -> Iterator[Object]:
        """The event with its sourceEventSeqs expanded."""
        yield self.event if self.sources is None else self.event | {"sourceEventSeqs": expand(self.sources)}


@dataclass(slots=True)
class ChunkLine:
    """A line of stream chunks, `count` of them: a packed row, or one chunk that stands alone (`chunk`).

    `event` is the line as parsed; other members as in EventLine. `chunk_type` is that of each chunk. Times are Unix ms,
    `first_token_ms` that of the first delta that holds anything. `is_rising` is False where a time step is negative.
    """

    line: int
    offset: int
    raw: bytes
    is_provisional: bool
    branch: int
    seq: int
    time_ms: int
    event: Object
    is_plain: bool
    is_odd: bool
    turn: int
    step: int
    chunk_type: str
    index: int | None
    count: int
    last_time_ms: int
    first_token_ms: int | None
    call_id: str | None
    tool_name: str | None
    chunk: Object | None
    is_rising: bool = True

    def times(self) -> Iterator[int]:
        """The time of each chunk."""
        if self.chunk is not None:
            return iter((self.time_ms,))
        return accumulate(map(int, self.event["data"]["dt"]), initial=self.time_ms)

    def logical(self) -> Iterator[Object]:
        """One assistant/chunk event for each chunk."""
        if self.chunk is not None:
            yield self.event
            return
        data = self.event["data"]
        texts = data["args"] if self.chunk_type == "tool-call-delta" else data["texts"]
        for seq, (time, text) in enumerate(zip(self.times(), texts, strict=True), self.seq):
            chunk = delta_of(PACKED_TYPES[self.event["type"]], data, text)
            place = {"turn": self.turn, "step": self.step}
            yield {"type": "assistant/chunk", "seq": seq, "time": time, "data": {**place, "chunk": chunk}}


Record = EventLine | ChunkLine


def logical_events(records: Iterable[Record]) -> Iterator[Object]:
    """The events of records in order, each run of chunks expanded."""
    for record in records:
        yield from record.logical()
