"""The outline of a log: of each event what a proof asks of it, and no text; of a message its digest.

So a log can be folded once its verdict is known, without its messages having been kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from sys import intern
from typing import Any

from turnlake.format.records import ChunkLine, EventLine, Record
from turnlake.format.values import Object
from turnlake.messages.digest import digest_of, json_bytes, message_digest
from turnlake.messages.messages import spoken
from turnlake.messages.requests import canonical_header
from turnlake.messages.surface import NODE_SINCE

# Some 150 MB; the longest sessions known have a tenth of them.
MOST_STEPS = 200_000
# The kind of a step that stands for chunks in lines of their own; no event type is without a slash.
CHUNK = "chunks"


@dataclass(slots=True)
class ProofStep:
    """One event of a log, or `count` chunks of one stream in a row, the first of them `seq`.

    `turn` and `step` are as the event names them, None where its data is no object (`has_data`); `op` is its surfaceOp.
    `digest` is that of its message, `header` that of a request header in canonical form. `call_ids` are the ids of the
    calls that a message advertises, of the one that starts, or of the one that a result resolves. `usage` is the one
    that counts, `has_no_sources` says that the event is known to cite nothing, `is_finish` that the chunks end with a
    finish.
    """

    line: int
    branch: int
    seq: int
    count: int
    kind: str
    time: Any
    has_data: bool = True
    turn: Any = None
    step: Any = None
    op: Any = None
    digest: bytes | None = None
    header: str | None = None
    call_ids: tuple[Any, ...] = ()
    usage: Any = None
    has_no_sources: bool = False
    is_finish: bool = False


class Outline:
    """The steps of a log, as its records are seen one after the other.

    `seed_length` gives that of the header once it is read: no run of chunks reaches across the inherited prefix.
    Of a log of more than MOST_STEPS `is_given_up` is True and nothing is kept, where it is bounded: memory must not
    grow with one log.
    """

    def __init__(self, seed_length: Callable[[], int | None], *, is_bounded: bool = True) -> None:
        self.steps: list[ProofStep] = []
        self._is_bounded = is_bounded
        self.is_given_up = False
        self._seed_length = seed_length
        # The chunks that the next ones may join.
        self._chunks: ProofStep | None = None

    def see(self, record: Record) -> None:
        """Go on by one record."""
        if self.is_given_up:
            return
        if isinstance(record, ChunkLine):
            self._see_chunks(record, record.seq, record.count)
            return
        self._chunks = None
        self._keep(proof_step(record))

    def _keep(self, step: ProofStep) -> None:
        self.steps.append(step)
        if self._is_bounded and len(self.steps) > MOST_STEPS:
            self.is_given_up = True
            self.steps.clear()

    def _see_chunks(self, record: ChunkLine, seq: int, count: int) -> None:
        cut = self._seed_length() or 0
        if seq < cut < seq + count:
            self._see_chunks(record, seq, cut - seq)
            seq, count = cut, seq + count - cut
        chunks = self._chunks
        if (
            chunks is None
            or chunks.branch != record.branch
            or chunks.turn != record.turn
            or chunks.step != record.step
            or (chunks.seq < cut) is not (seq < cut)
        ):
            chunks = self._chunks = ProofStep(
                record.line, record.branch, seq, 0, CHUNK, None, True, record.turn, record.step
            )
            self._keep(chunks)
        chunks.count += count
        chunks.time = record.last_time_ms
        kind = record.chunk_type
        if record.chunk is not None and kind in ("usage", "finish"):
            chunks.usage = record.chunk.get("usage") if kind == "usage" else None
            chunks.is_finish = kind == "finish"
            # The next chunk begins a step of its own, lest this one's usage be lost.
            self._chunks = None


def outline_of(records: Iterable[Record], seed_length: int | None) -> list[ProofStep]:
    """The steps of records, however many."""
    outline = Outline(lambda: seed_length, is_bounded=False)
    for record in records:
        outline.see(record)
    return outline.steps


def proof_step(record: EventLine) -> ProofStep:
    """The step of an event."""
    step = bare_step(record.event, record.line, record.branch, record.seq)
    kind, data = step.kind, record.event.get("data")
    if kind in NODE_SINCE:
        step.digest = _digest(record.seq, spoken(record.event))
        if kind == "assistant/message":
            step.has_no_sources = record.sources == []
    if kind == "request/header" and isinstance(data, dict) and isinstance(data.get("header"), dict):
        step.header = digest_of(canonical_header(data["header"]))
    if kind in _SPENDING:
        step.usage = _usage(record, data)
    return step


def bare_step(event: Object, line: int, branch: int, seq: int) -> ProofStep:
    """The step of an event without digest and usage: what brackets and calls are made of."""
    kind, data = intern(event["type"]), event.get("data")
    if not isinstance(data, dict):
        return ProofStep(line, branch, seq, 1, kind, event.get("time"), False, op=event.get("surfaceOp"))
    return ProofStep(
        *(line, branch, seq, 1, kind, event.get("time"), True, data.get("turn"), data.get("step")),
        event.get("surfaceOp"),
        call_ids=_CALL_IDS[kind](data) if kind in _CALL_IDS else (),
    )


_SPENDING = frozenset(("assistant/message", "assistant/attempt", "compaction/summary"))


def _usage(record: EventLine, data: Any) -> Any:
    """What an event states of usage: its own, else the last one of the stream in it."""
    own = data.get("usage") if isinstance(data, dict) and record.event["type"] != "assistant/attempt" else None
    if own is not None:
        return own
    streamed = record.stream.usage if record.stream is not None else None
    return None if streamed is None else streamed.get("usage")


def _digest(seq: int, message: Object | None) -> bytes | None:
    if message is None:
        return None
    source = message.get("source")
    kind = source.get("kind") if isinstance(source, dict) else None
    names = (_text(message.get("id")), _text(message.get("role")), _text(kind))
    return message_digest(seq, names, json_bytes(message["content"]) if "content" in message else None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _advertised(data: Object) -> tuple[Any, ...]:
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, (list, tuple)) else ()
    return tuple([block.get("id") for block in blocks if isinstance(block, dict) and block.get("type") == "tool-call"])


def _started(data: Object) -> tuple[Any, ...]:
    return (data.get("callId"),)


def _resolved(data: Object) -> tuple[Any, ...]:
    message = data.get("message")
    source = message.get("source") if isinstance(message, dict) else None
    return (source.get("callId") if isinstance(source, dict) else None,)


_CALL_IDS: dict[str, Callable[[Object], tuple[Any, ...]]] = {
    "assistant/message": _advertised,
    "tool/call": _started,
    "tool/result": _resolved,
}
