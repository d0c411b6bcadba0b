"""A proof: what a log gives, derived without any table, as digests and sums small enough to be stored.

One for each log: the messages and the request header at its end and before every request, the events that would
close its open turn, and what its calls used. Whoever derives the same from tables can compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import NamedTuple

import orjson

from turnlake.format.values import is_int
from turnlake.format.verdict import Verdict
from turnlake.messages.attempts import Attempt, counted_attempts, counted_compactions
from turnlake.messages.closers import closing_events
from turnlake.messages.digest import Chain, digest_of
from turnlake.messages.frozen import Frozen
from turnlake.messages.log import latest, projected
from turnlake.messages.outline import CHUNK, ProofStep
from turnlake.messages.surface import SurfaceFold, node_types
from turnlake.messages.usage import Tokens


class Checkpoint(NamedTuple):
    """The messages and the header of a prefix: the events below `before_seq`, all of them where it is None."""

    before_seq: int | None
    message_count: int
    chain: str
    header: str | None


@dataclass(frozen=True)
class Used:
    """Calls and their tokens: sums of what is known, None where nothing is; `calls` is a digest of each by itself."""

    attempt_count: int
    unknown_count: int
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    calls: str


@dataclass(frozen=True)
class Proof:
    """What a log gives. `checkpoints` rise and the last is the end; `trail` has 8 hex digits for each message there.

    `closers` is a digest of the events that would close the open turn.
    """

    checkpoints: tuple[Checkpoint, ...]
    trail: str
    closers: str
    used: Used

    @property
    def end(self) -> Checkpoint:
        """The whole log."""
        return self.checkpoints[-1]

    def dump(self) -> str:
        """The proof as JSON."""
        rows = [[one.before_seq, one.message_count, one.chain, one.header] for one in self.checkpoints]
        names = sorted({row[3] for row in rows if row[3] is not None})
        rows = [[*row[:3], None if row[3] is None else names.index(row[3])] for row in rows]
        whole = {"checkpoints": rows, "headers": names, "trail": self.trail, "closers": self.closers}
        return orjson.dumps(whole | {"used": asdict(self.used)}).decode()


def load_proof(text: str) -> Proof:
    """A proof of `Proof.dump`."""
    stored = orjson.loads(text)
    names = stored["headers"]
    rows = [(*row[:3], None if row[3] is None else names[row[3]]) for row in stored["checkpoints"]]
    checkpoints = tuple(Checkpoint(*row) for row in rows)
    return Proof(checkpoints, stored["trail"], stored["closers"], Used(**stored["used"]))


def prove(steps: Sequence[ProofStep], verdict: Verdict, version: int, *, has_header: bool) -> Proof:
    """The proof of a log by its outline."""
    calls = counted_attempts(steps, verdict)
    last_branch = steps[-1].branch if steps else 0
    prefixes = sorted(
        {one.before_seq for one, _ in calls if one.before_seq is not None and _is_shown(verdict, last_branch, one)}
    )
    walk = _Walk(version)
    checkpoints = tuple(walk.before(prefixes, projected(steps, verdict, has_header=has_header)))
    used = used_by(
        [(one.place, tokens) for one, tokens in calls],
        [(_ordinal(n, branch), tokens) for n, branch, tokens in _numbered(counted_compactions(steps, verdict))],
    )
    return Proof(checkpoints, walk.chain.trail, closers_digest(map(_closer, _closers(steps, verdict, version))), used)


def _closers(steps: Sequence[ProofStep], verdict: Verdict, version: int) -> tuple[Frozen, ...]:
    """What closes the turn that is open after all that can be read, as the tables tell the state of turns.

    What stands before the last end of a turn has no part in that.
    """
    readable = steps if verdict.verdict == "clean" else latest(steps)
    ends = (place for place in range(len(readable) - 1, -1, -1) if readable[place].kind == "turn/end")
    events = [one for one in readable[next(ends, 0) :] if one.kind != CHUNK or one is readable[-1]]
    return closing_events(events, version)


def _is_shown(verdict: Verdict, last_branch: int, attempt: Attempt) -> bool:
    """Whether the log's projection holds the attempt: not one behind a bad record, or of a branch written over."""
    return attempt.is_accepted or (verdict.verdict == "refused" and last_branch == attempt.branch)


def _numbered(compactions: Iterable[tuple[int, Tokens]]) -> Iterator[tuple[int, int, Tokens]]:
    counts: dict[int, int] = {}
    for branch, tokens in compactions:
        counts[branch] = counts.get(branch, 0) + 1
        yield counts[branch], branch, tokens


def _ordinal(number: int, branch: int) -> str:
    return f"compaction/{number}" + (f"/b{branch}" if branch else "")


def used_by(*calls: Iterable[tuple[str, Tokens]]) -> Used:
    """What calls used, each told by what stands behind the session in its attempt_id."""
    every = [call for some in calls for call in some]
    lines = sorted(orjson.dumps((place, *tokens)) for place, tokens in every)
    totals = [tokens.total for _, tokens in every]
    return Used(
        attempt_count=len(every),
        unknown_count=totals.count(None),
        input_tokens=_sum(tokens.input for _, tokens in every),
        output_tokens=_sum(tokens.output for _, tokens in every),
        total_tokens=_sum(totals),
        calls=sha256(b"\n".join(lines)).hexdigest()[:16],
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


# Of a closer: seq, type, turn, step, call, seq of its start, error code, time.
Closer = tuple[int, str, int | None, int | None, str | None, int | None, str | None, int | None]


def closers_digest(closers: Iterable[Closer]) -> str:
    """A digest of closing events."""
    return digest_of(list(closers))


def _closer(event: Frozen) -> Closer:
    data = event["data"]
    call_id = data["message"]["source"]["callId"] if "message" in data else None
    code = data["error"]["code"] if "error" in data else None
    [call_seq] = event.get("sourceEventSeqs", (None,))
    turn, step = _number(data, "turn"), _number(data, "step")
    return (event["seq"], event["type"], turn, step, call_id, call_seq, code, event["time"])


def _number(data: Frozen, name: str) -> int | None:
    value = data.get(name)
    return int(value) if is_int(value) else None


class _Walk:
    """One pass over the records that count, stopping before each of some seqs."""

    def __init__(self, version: int) -> None:
        self.chain = Chain()
        self._fold = SurfaceFold(version)
        self._nodes = node_types(version)
        self._header: str | None = None

    def before(self, prefixes: Iterable[int], steps: Iterable[ProofStep]) -> Iterator[Checkpoint]:
        """A checkpoint before each of the rising seqs, and one at the end."""
        telling = [one for one in steps if one.kind in self._nodes or one.kind == "request/header"]
        seen = 0
        for prefix in prefixes:
            while seen < len(telling) and telling[seen].seq < prefix:
                self._see(telling[seen])
                seen += 1
            yield self._checkpoint(prefix)
        for step in telling[seen:]:
            self._see(step)
        yield self._checkpoint(None)

    def _see(self, step: ProofStep) -> None:
        if step.kind == "request/header":
            if step.has_data:
                self._header = step.header
            return
        place = self._fold.see(step.seq, step.op)
        if place is not None:
            self.chain.put(place, [step.digest])

    def _checkpoint(self, before_seq: int | None) -> Checkpoint:
        chain, count = self.chain.head
        return Checkpoint(before_seq, count, chain, self._header)
