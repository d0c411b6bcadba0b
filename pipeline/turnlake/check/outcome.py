"""A log's proof against what the tables say: a row of `marts.projection_checks`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from turnlake.messages.proof import Checkpoint, Proof

# What made the proof of a log.
BUILD, CHECK = "build", "check"

Status = Literal["match", "mismatch", "not_exact", "not_checked"]


@dataclass(frozen=True)
class Session:
    """A session of the database, as far as its check needs to know it.

    `proof` is that of the log that counts, `proved_by` says what made it; `decoded_bytes` are those of its lines.
    Breaches are findings about invariants; those of `error_count` are such as the harness does not tolerate, at events
    that it would accept.
    """

    session_id: str
    log_id: str
    inexact_reason: str | None
    proof: str | None
    breach_count: int
    error_count: int
    decoded_bytes: int = 0
    proved_by: str = BUILD


@dataclass(frozen=True)
class Check:
    """A row of `marts.projection_checks`, its columns in order."""

    session_id: str
    log_id: str
    status: Status
    is_equal: bool | None = None
    reason: str | None = None
    proved_by: str | None = None
    checkpoint_count: int | None = None
    first_difference_seq: int | None = None
    first_difference_position: int | None = None
    are_messages_equal: bool | None = None
    is_header_equal: bool | None = None
    is_usage_equal: bool | None = None
    are_closers_equal: bool | None = None
    log_message_count: int | None = None
    table_message_count: int | None = None
    log_hash: str | None = None
    table_hash: str | None = None
    log_attempt_count: int | None = None
    table_attempt_count: int | None = None
    log_total_tokens: int | None = None
    table_total_tokens: int | None = None
    breach_count: int = 0
    error_count: int = 0

    @property
    def is_fine(self) -> bool:
        """Whether nothing differs, and no invariant is broken that the harness would not tolerate."""
        return self.is_equal is not False and not self.error_count


def not_checked(session: Session, reason: str) -> Check:
    """The row of a session that has nothing to be compared with."""
    return Check(
        session.session_id,
        session.log_id,
        "not_checked",
        reason=reason,
        breach_count=session.breach_count,
        error_count=session.error_count,
    )


def compared(session: Session, log: Proof, tables: Proof) -> Check:
    """The row of a session: what its log gives, what the tables say at the same places."""
    messages, headers = _first(_message_faults(log, tables)), _first(_header_faults(log, tables))
    parts = (messages is None, headers is None, log.used == tables.used, log.closers == tables.closers)
    is_equal = all(parts)
    position = _position(log.trail, tables.trail)
    reasons = [*_prefix_reasons("messages", messages, position), *_prefix_reasons("request header", headers, None)]
    reasons += [text for text, is_same in (("usage", parts[2]), ("closers", parts[3])) if not is_same]
    differing = [one.before_seq for one in (messages, headers) if one is not None and one.before_seq is not None]
    return Check(
        session.session_id,
        session.log_id,
        "mismatch" if not is_equal else "match" if session.inexact_reason is None else "not_exact",
        is_equal,
        f"differs: {'; '.join(reasons)}" if reasons else session.inexact_reason,
        session.proved_by,
        len(log.checkpoints),
        min(differing, default=None),
        position,
        *parts,
        log.end.message_count,
        tables.end.message_count,
        log.end.chain,
        tables.end.chain,
        log.used.attempt_count,
        tables.used.attempt_count,
        log.used.total_tokens,
        tables.used.total_tokens,
        session.breach_count,
        session.error_count,
    )


def _message_faults(log: Proof, tables: Proof) -> Iterator[Checkpoint]:
    """The checkpoints of the log at which the tables show other messages."""
    for one, other in zip(log.checkpoints, tables.checkpoints, strict=True):
        if (one.message_count, one.chain) != (other.message_count, other.chain):
            yield one


def _header_faults(log: Proof, tables: Proof) -> Iterator[Checkpoint]:
    for one, other in zip(log.checkpoints, tables.checkpoints, strict=True):
        if one.header != other.header:
            yield one


def _first(faults: Iterator[Checkpoint]) -> Checkpoint | None:
    return next(faults, None)


def _position(log: str, tables: str) -> int | None:
    """The place of the first message at the end that differs."""
    places = (place for place, (one, other) in enumerate(zip_longest(_links(log), _links(tables))) if one != other)
    return next(places, None)


def _links(trail: str) -> list[str]:
    return [trail[at : at + 8] for at in range(0, len(trail), 8)]


def _prefix_reasons(what: str, fault: Checkpoint | None, position: int | None) -> Iterator[str]:
    if fault is None:
        return
    place = "at the end" if fault.before_seq is None else f"before event {fault.before_seq}"
    yield f"{what} {place}" + ("" if position is None else f", from message {position} of the end on")
