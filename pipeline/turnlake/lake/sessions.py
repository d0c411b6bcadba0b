"""Which logs count: generations, copies, and session ids that are unique in the lake.

Pure functions over what is known of each log. The order in which logs are given never matters.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple

from turnlake.findings import Finding

Why = Literal["generation", "copy", "diverged_copy"]
# Whether the records of the log named first begin with all records of the log named second, by log_id.
SameStart = Callable[[str, str], bool]


class LogFacts(NamedTuple):
    """What decides about a log: where it lies, what its name and its header say, how much is in it."""

    log_id: str
    source: str
    path: str
    folder: str
    generation: int | None
    header_id: str | None
    created_at_ms: int | None
    format_version: int | None
    record_count: int
    event_count: int
    last_event_ms: int | None
    is_read: bool
    container: str
    is_missing: bool = False

    @property
    def rank(self) -> int:
        """The generation to compare by: that of the name, else the version the header states, else below all."""
        known = self.generation if self.generation is not None else self.format_version
        return -1 if known is None else known


class Resolved(NamedTuple):
    """A log's session and, where another log counts instead of it, which and why."""

    session_id: str
    superseded_by: str | None = None
    superseded_why: Why | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of each log by log_id, and findings with the log_id each is about."""

    by_log_id: Mapping[str, Resolved]
    findings: tuple[tuple[str, Finding], ...]


@dataclass(frozen=True, slots=True)
class _Loss:
    """A log that does not count, the one that beat it, and why."""

    winner: LogFacts
    why: Why


def resolve(facts: Iterable[LogFacts], same_start: SameStart) -> Resolution:
    """Decide for all logs of a lake which of them count and what their sessions are called.

    Logs with superseded_by None have session ids of their own; a superseded log has that of the log it names,
    which itself is not superseded, though it may be unread: nothing falls back to a lower generation.
    `same_start` is asked about logs of one session and equal generation only.
    """
    logs = sorted(facts, key=_place)
    losses: dict[str, _Loss] = {}
    heads = _heads_by_session(logs, losses)
    for candidates in heads.values():
        if len(candidates) > 1:
            losses.update(_settle_copies(candidates, same_start))
    counting = [log for log in logs if log.log_id not in losses]
    names = _session_ids(counting)
    by_log_id = {log.log_id: Resolved(names[log.log_id]) for log in counting}
    for log_id, loss in losses.items():
        winner = _final(loss, losses)
        by_log_id[log_id] = Resolved(names[winner.log_id], winner.log_id, loss.why)
    findings = [*_divergences(logs, losses), *_renamings(counting, names)]
    return Resolution({log.log_id: by_log_id[log.log_id] for log in logs}, tuple(findings))


def _place(log: LogFacts) -> tuple[str, str]:
    return log.source, log.path


def _heads_by_session(logs: list[LogFacts], losses: dict[str, _Loss]) -> dict[Hashable, list[LogFacts]]:
    """The logs of the highest generation of each session folder, and all logs of other names, by session.

    Logs of lower generations in the same folder go to losses.
    """
    folders: defaultdict[tuple[str, str], list[LogFacts]] = defaultdict(list)
    heads: defaultdict[Hashable, list[LogFacts]] = defaultdict(list)
    for log in logs:
        if log.generation is None:
            heads[_identity([log])].append(log)
        else:
            folders[log.source, log.folder].append(log)
    for members in folders.values():
        if len(members) == 1:
            heads[_identity(members)] += members
            continue
        members.sort(key=lambda log: (-log.rank, log.container != "zstd"))
        first = members[0]
        for log in members:
            if log.rank == first.rank:
                # A head whose header can't be read is still the session that its lower generations name.
                heads[_identity([log, *members])].append(log)
            else:
                losses[log.log_id] = _Loss(first, "generation")
    return heads


def _identity(members: list[LogFacts]) -> Hashable:
    """What logs of one session have in common: the first header's id and time, else the place of the first log."""
    for log in members:
        if log.header_id is not None:
            return log.header_id, log.created_at_ms
    alone = members[0]
    return ("no header", alone.source, alone.path if alone.generation is None else alone.folder)


def _settle_copies(candidates: list[LogFacts], same_start: SameStart) -> dict[str, _Loss]:
    """Which one of several logs of one session counts, and how each of the others lost to it."""
    rank = max(log.rank for log in candidates)
    winner, *others = sorted((log for log in candidates if log.rank == rank), key=_preference)
    reasons: dict[str, Why] = {log.log_id: "generation" for log in candidates if log.rank < rank}
    for log in others:
        if same_start(winner.log_id, log.log_id):
            reasons[log.log_id] = "copy"
        elif log.is_read == winner.is_read and same_start(log.log_id, winner.log_id):
            # What was a copy of the former winner, or differed from it, still is and does.
            reasons[winner.log_id] = "copy"
            winner = log
        else:
            reasons[log.log_id] = "diverged_copy"
    return {log_id: _Loss(winner, why) for log_id, why in reasons.items()}


def _preference(log: LogFacts) -> tuple[object, ...]:
    """Sorts copies of one generation, the one to count first. What only goes on where another ends precedes it."""
    return (
        not log.is_read,
        log.last_event_ms is None,
        -(log.last_event_ms or 0),
        -log.record_count,
        -log.event_count,
        log.is_missing,
        log.container != "zstd",
        log.source,
        log.path,
    )


def _final(loss: _Loss, losses: Mapping[str, _Loss]) -> LogFacts:
    winner = loss.winner
    while winner.log_id in losses:
        winner = losses[winner.log_id].winner
    return winner


def _session_ids(counting: list[LogFacts]) -> dict[str, str]:
    """A session id of its own for each log. Of several with one id the earliest keeps it."""
    claims: defaultdict[str, list[LogFacts]] = defaultdict(list)
    for log in counting:
        claims[_own_id(log)].append(log)
    names: dict[str, str] = {}
    taken = set(claims)
    for own_id, claimants in sorted(claims.items()):
        if len(claimants) > 1:
            claimants.sort(key=_claim)
        names[claimants[0].log_id] = own_id
        for log in claimants[1:]:
            names[log.log_id] = next(name for name in _other_names(own_id, log) if name not in taken)
            taken.add(names[log.log_id])
    return names


def _own_id(log: LogFacts) -> str:
    """The id in the header; else the name of the session folder, or of a file that is in none, without its endings."""
    if log.header_id is not None:
        return log.header_id
    if log.generation is None:
        return _without_endings(log.path.rpartition("/")[2])
    folder = log.folder or log.source.removesuffix(f"/{log.path}")
    return folder.rpartition("/")[2].removesuffix("!") or log.log_id


def _without_endings(file_name: str) -> str:
    return file_name.removesuffix(".zstd").removesuffix(".jsonl") or file_name


def _claim(log: LogFacts) -> tuple[object, ...]:
    created = log.created_at_ms
    return log.header_id is None, created is None, created or 0, log.source, log.path


def _other_names(own_id: str, log: LogFacts) -> Iterator[str]:
    if log.created_at_ms is not None:
        yield f"{own_id}~{hashlib.sha256(str(log.created_at_ms).encode()).hexdigest()[:8]}"
    for attempt in count():
        place = f"{log.source}\0{log.path}" + attempt * "\0"
        yield f"{own_id}~{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def _divergences(logs: list[LogFacts], losses: Mapping[str, _Loss]) -> Iterator[tuple[str, Finding]]:
    for log in logs:
        loss = losses.get(log.log_id)
        if loss is not None and loss.why == "diverged_copy":
            detail = f"copies of one session differ; {loss.winner.path} in {loss.winner.source} counts"
            yield log.log_id, Finding("diverged_copy", detail)


def _renamings(counting: list[LogFacts], names: Mapping[str, str]) -> Iterator[tuple[str, Finding]]:
    for log in counting:
        own_id = _own_id(log)
        if names[log.log_id] != own_id:
            detail = f"another session is called {own_id} too; this one is {names[log.log_id]} in the lake"
            yield log.log_id, Finding("duplicate_session_id", detail)
