"""The records of a log, each cut down to what a proof asks of it: no text, of every message its digest.

So a log can be folded once its verdict is known, without its messages having been kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import Any

from turnlake.format.record import Record
from turnlake.format.runs import Run
from turnlake.format.values import Object
from turnlake.messages.digest import digest_of, json_bytes, message_digest
from turnlake.messages.messages import spoken
from turnlake.messages.requests import canonical_header
from turnlake.messages.surface import NODE_SINCE

# Some 150 MB; the longest sessions known have a tenth of them.
MOST_RECORDS = 200_000
# The member that stands for what was left out.
DIGEST = "digest"
# Chunks that say something of a call; all others only show that there was one.
_TELLING = ("usage", "finish")


@dataclass(slots=True)
class Stretch(Run):
    """Chunks of one stream in a row, without text: how many, and the last one where it is a usage or a finish."""

    length: int = 1

    @property
    def count(self) -> int:
        """Number of chunks."""
        return self.length

    def chunks(self) -> Iterator[tuple[int, Object]]:
        """The last chunk, with its time."""
        yield self.last_time_ms, self.chunk or {}


class Sketch:
    """A log's records, cut down, as they are told one after the other.

    `seed_length` gives that of the header once it is read: no stretch of chunks reaches across the inherited prefix.
    Of a log of more than MOST_RECORDS, `is_given_up` is True and nothing is kept: memory must not grow with one log.
    """

    def __init__(self, seed_length: Callable[[], int | None]) -> None:
        self.records: list[Record] = []
        self.is_given_up = False
        self._seed_length = seed_length
        self._stretch: Stretch | None = None
        self._place: tuple[Any, ...] = ()

    def see(self, record: Record) -> None:
        """Go on by one record."""
        if self.is_given_up:
            return
        if (run := record.run) is not None:
            chunk = run.chunk if run.chunk_type in _TELLING else None
            self.see_chunks(
                record.line, record.branch, record.seq, run.turn, run.step, run.count, run.last_time_ms, chunk
            )
            return
        self._stretch = None
        self._keep(_CUT_DOWN.get(record.event["type"], _bare)(record))

    def _keep(self, record: Record) -> None:
        self.records.append(record)
        if len(self.records) > MOST_RECORDS:
            self.is_given_up = True
            self.records.clear()

    def see_chunks(
        self,
        line: int,
        branch: int,
        seq: int,
        turn: int | None,
        step: int | None,
        count: int,
        last_time_ms: int,
        telling: Object | None,
    ) -> None:
        """Go on by chunks of one stream that follow one another; `telling` is the last where it is usage or finish."""
        cut = self._seed_length() or 0
        if seq < cut < seq + count:
            self.see_chunks(line, branch, seq, turn, step, cut - seq, last_time_ms, None)
            seq, count = cut, seq + count - cut
        stretch, place = self._stretch, (branch, turn, step, seq < cut)
        if stretch is None or place != self._place:
            kind = "text-delta" if telling is None else telling["type"]
            stretch = Stretch(kind, last_time_ms, last_time_ms, turn=turn, step=step, chunk=telling, length=0)
            event = {"type": "assistant/chunk", "seq": seq}
            self._keep(Record(line, 0, b"", False, branch, seq, last_time_ms, event, stretch, False, False))
        elif telling is not None:
            stretch.chunk_type, stretch.chunk = telling["type"], telling
        stretch.length += count
        stretch.last_time_ms = last_time_ms
        # The next chunk is told by itself, lest this one's usage be lost.
        self._stretch, self._place = (stretch, place) if telling is None else (None, ())


def _whole(record: Record) -> Record:
    return _record(record, {"data": record.event.get("data")})


def _bare(record: Record) -> Record:
    return _record(record, {})


def _record(record: Record, members: Object) -> Record:
    """The record without its text, and only these members beside type, seq and time."""
    event = record.event
    if not isinstance(event.get("data"), dict):
        members.pop("data", None)
    # One text for all events of a type: there are thousands.
    members["type"], members["seq"], members["time"] = intern(event["type"]), record.seq, event.get("time")
    return Record(record.line, 0, b"", False, record.branch, record.seq, record.time_ms, members, None, False, False)


def _node(record: Record) -> Record:
    event = record.event
    digest = _message_digest(record.seq, spoken(event))
    return _record(record, {"surfaceOp": event.get("surfaceOp"), DIGEST: digest, "data": _DATA[event["type"]](event)})


def _message_digest(seq: int, message: Object | None) -> bytes | None:
    if message is None:
        return None
    source = message.get("source")
    kind = source.get("kind") if isinstance(source, dict) else None
    names = (_text(message.get("id")), _text(message.get("role")), _text(kind))
    return message_digest(seq, names, json_bytes(message["content"]) if "content" in message else None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _answer(record: Record) -> Record:
    cut = _node(record)
    # Only whether the sources are known to be none is asked for.
    cut.sources = [] if record.sources == [] else None
    # Where the message itself says it, nobody asks the stream.
    has_usage = _object(record.event.get("data")).get("usage") is not None
    cut.stream = None if has_usage else _last_usage(record)
    return cut


def _attempt(record: Record) -> Record:
    cut = _record(record, {"data": _place_of(record.event)})
    cut.stream = _last_usage(record)
    return cut


def _last_usage(record: Record) -> list[Run]:
    return [run for run in record.stream or () if run.chunk_type == "usage"][-1:]


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _place_of(event: Object) -> Object:
    data = _object(event.get("data"))
    return {"turn": data.get("turn"), "step": data.get("step")}


def _answer_data(event: Object) -> Object:
    data = _object(event.get("data"))
    content = _object(data.get("message")).get("content")
    calls = [
        {"type": "tool-call", "id": block.get("id")}
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and block.get("type") == "tool-call"
    ]
    return {
        "turn": data.get("turn"),
        "step": data.get("step"),
        "usage": data.get("usage"),
        "message": {"content": calls},
    }


def _result_data(event: Object) -> Object:
    data = _object(event.get("data"))
    source = _object(_object(data.get("message")).get("source"))
    return {"turn": data.get("turn"), "step": data.get("step"), "message": {"source": {"callId": source.get("callId")}}}


def _call(record: Record) -> Record:
    data = _object(record.event.get("data"))
    return _record(record, {"data": {"turn": data.get("turn"), "step": data.get("step"), "callId": data.get("callId")}})


def _header(record: Record) -> Record:
    data = record.event.get("data")
    if not isinstance(data, dict):
        return _record(record, {})
    header = data.get("header")
    digest = digest_of(canonical_header(header)) if isinstance(header, dict) else None
    return _record(record, {"data": {DIGEST: digest}})


def _summary(record: Record) -> Record:
    return _record(record, {"data": {"usage": _object(record.event.get("data")).get("usage")}})


_DATA: dict[str, Callable[[Object], Object]] = {
    **dict.fromkeys(NODE_SINCE, _place_of),
    "assistant/message": _answer_data,
    "tool/result": _result_data,
}
_CUT_DOWN: dict[str, Callable[[Record], Record]] = {
    **dict.fromkeys(NODE_SINCE, _node),
    # Small ones stay whole.
    **dict.fromkeys(("turn/start", "step/start", "step/end", "llm/retry-started"), _whole),
    **dict.fromkeys(("turn/end", "llm/retry"), lambda record: _record(record, {"data": _place_of(record.event)})),
    "assistant/message": _answer,
    "assistant/attempt": _attempt,
    "tool/call": _call,
    "request/header": _header,
    "compaction/summary": _summary,
}
