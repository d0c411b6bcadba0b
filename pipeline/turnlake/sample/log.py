"""One log under construction: numbers its events, keeps its clock and its surface, hands out its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from turnlake.sample.shapes import Header, Json, replace_op, with_ranges

Sink = Callable[[Sequence[bytes]], None]


@dataclass
class Tally:
    """What was written: lines with the header, logical events, stream chunks, decoded bytes."""

    lines: int = 0
    events: int = 0
    chunks: int = 0
    decoded_bytes: int = 0


class Log:
    """The events of one session in order.

    Lines gather until `flush` hands them to the sink as one batch; the header is a batch of its own.
    `surface` holds the seqs of the messages that the model sees, in the model's order.
    """

    def __init__(self, header: Header, sink: Sink, *, ranges: bool = False) -> None:
        self.header = header
        self.tally = Tally()
        self.seq = 0
        self.time = header.created_at
        self.surface: list[int] = []
        self._sink = sink
        self._ranges = ranges
        self._lines: list[bytes] = []
        self._write(header.line())
        self.flush()

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.time += milliseconds

    def event(self, kind: str, data: Json) -> int:
        """Write an event that the model does not see; returns its seq."""
        return self._event({"type": kind, "seq": self.seq, "time": self.time, "data": data})

    def append(self, kind: str, data: Json, sources: Sequence[int] | None = None) -> int:
        """Write a message at the end of the surface; returns its seq."""
        self.surface.append(self.seq)
        return self._surface_event(kind, data, sources, "append")

    def replace(self, kind: str, data: Json, sources: Sequence[int], first: int, last: int) -> int:
        """Write a message in the place of the surface nodes from `first` to `last`; returns its seq."""
        start, end = self.surface.index(first), self.surface.index(last)
        self.surface[start : end + 1] = [self.seq]
        return self._surface_event(kind, data, sources, replace_op(self.header.version, first, last))

    def row(self, kind: str, data: Json, count: int, time: int) -> None:
        """Write a packed row of `count` stream chunks, the first of them at `time` (versions 0 and 1)."""
        self._write({"type": kind, "seq0": self.seq, "time0": time, "data": data})
        self.seq += count
        self.tally.events += count

    def inherit(self, batches: Sequence[Sequence[bytes]], events: int, chunks: int) -> None:
        """Take over the first events of another log, byte for byte."""
        for lines in batches:
            for line in lines:
                self._keep(line)
            self.flush()
        self.seq += events
        self.tally.events += events
        self.tally.chunks += chunks

    def flush(self) -> None:
        """Hand the lines gathered so far to the sink, as one batch."""
        if self._lines:
            self._sink(self._lines)
            self._lines = []

    def _surface_event(self, kind: str, data: Json, sources: Sequence[int] | None, op: str | Json) -> int:
        line: Json = {"type": kind, "seq": self.seq, "time": self.time, "data": data}
        if sources is not None:
            line["sourceEventSeqs"] = with_ranges(list(sources)) if self._ranges else list(sources)
        line["surfaceOp"] = op
        return self._event(line)

    def _event(self, line: Json) -> int:
        self._write(line)
        self.seq += 1
        self.tally.events += 1
        return self.seq - 1

    def _write(self, line: Json) -> None:
        self._keep(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def _keep(self, line: bytes) -> None:
        self._lines.append(line)
        self.tally.lines += 1
        self.tally.decoded_bytes += len(line)
