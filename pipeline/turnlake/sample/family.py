"""One session that starts from nothing, with its subagent's session and its fork, each in a log of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from turnlake.sample.calls import new_id
from turnlake.sample.content import Content
from turnlake.sample.layout import log_path
from turnlake.sample.log import Log, Sink
from turnlake.sample.plan import Budget, Plan
from turnlake.sample.session import Session
from turnlake.sample.setting import MODELS, PROJECTS, Prompt, build_prompt
from turnlake.sample.shapes import Header
from turnlake.sample.storage import LogFile
from turnlake.sample.streams import Block
from turnlake.sample.turns import Deck, Dials, Turns
from turnlake.sample.words import Vocabulary

# Sessions of this size and up are played in full, smaller ones with shorter texts.
FULL_SESSION = 400_000
FULL = Dials(thinking=250, saying=65, arguments=75, result=1500)
PROMPT_TOKENS = 4_000

DAY = 86_400_000
# 2026-08-20 and 2026-11-20 in Unix milliseconds; the longest sessions last some days.
FIRST_DAY = 1_787_184_000_000
LAST_DAY = FIRST_DAY + 92 * DAY
LONGEST = 12 * DAY
# Milliseconds between turns, as often as they occur.
PAUSES = (4_000, 15_000, 15_000, 40_000, 40_000, 90_000, 180_000, 600_000, 2_400_000)
NIGHT = 14 * 3_600_000


@dataclass
class SampleSummary:
    """What a sample holds: logical events, stream chunks in whatever form, bytes before and after compression."""

    sessions: int = 0
    lines: int = 0
    events: int = 0
    chunks: int = 0
    decoded_bytes: int = 0
    stored_bytes: int = 0

    def add(self, log: Log, file: LogFile) -> None:
        """Count a finished log."""
        self.sessions += 1
        self.lines += log.tally.lines
        self.events += log.tally.events
        self.chunks += log.tally.chunks
        self.decoded_bytes += file.decoded_bytes
        self.stored_bytes += file.stored_bytes


class Room:
    """A log file, and the share of bytes that it may fill."""

    def __init__(self, file: LogFile, share: int) -> None:
        self.file = file
        self.share = share
        self.dials = FULL.scaled(min(1.0, max(share, 1) / FULL_SESSION))
        self._kept: list[Sequence[bytes]] | None = None

    def is_left(self) -> bool:
        """Whether there is room for more."""
        return self.file.decoded_bytes < self.share

    def keeping(self, batches: list[Sequence[bytes]]) -> Sink:
        """A sink that writes to the file and, until told to stop, keeps what it writes."""
        self._kept = batches

        def write(lines: Sequence[bytes]) -> None:
            self.file.write(lines)
            if self._kept is not None:
                self._kept.append(lines)

        return write

    def stop_keeping(self) -> None:
        """Keep nothing any more."""
        self._kept = None


@dataclass(frozen=True)
class Sample:
    """What all sessions of a sample share."""

    root: Path
    version: int
    raw: bool
    words: Vocabulary
    budget: Budget
    deck: Deck
    summary: SampleSummary


class Family:
    """Plays one plan. The subagent and the fork are played while their parent waits, so that little has to be kept."""

    def __init__(self, sample: Sample, plan: Plan, rng: Random) -> None:
        self._sample = sample
        self._plan = plan
        self._rng = rng
        self._content = Content(sample.words, rng)

    def write(self) -> None:
        """Write all logs of the family."""
        start = FIRST_DAY + self._rng.randrange(LAST_DAY - FIRST_DAY - LONGEST)
        header = Header(self._sample.version, f"session-{new_id(self._rng)}", start, self._rng.choice(PROJECTS))
        with self._room(header, self._plan.weight) as room:
            batches: list[Sequence[bytes]] = []
            log = Log(header, room.keeping(batches) if self._plan.fork_weight else room.file.write)
            session = Session(log, self._rng.choice(MODELS), self._prompt(room), self._rng)
            session.open()
            self._turns(session, room).completed()
            if self._plan.fork_weight:
                log.flush()
                self._fork(session, batches[1:])
                room.stop_keeping()
            if self._plan.child_weight:
                self._turns(session, room).delegated(self._delegate)
            self._play(session, room, is_dangling=self._plan.is_dangling)

    def _fork(self, parent: Session, batches: Sequence[Sequence[bytes]]) -> None:
        """Someone forks the parent as it is now and goes on elsewhere."""
        log = parent.log
        header = replace(
            log.header,
            id=f"session-{new_id(self._rng)}",
            created_at=log.time + self._rng.choice(PAUSES),
            parent=log.header.id,
            inherited=log.seq,
        )
        with self._room(header, self._plan.fork_weight) as room:
            session = parent.fork(header, room.file.write, batches)
            self._turns(session, room).completed()
            self._play(session, room)

    def _delegate(self, parent: Session, call: Block) -> str:
        """A subagent works in a session of its own; the parent waits for its answer."""
        log, label = parent.log, json.loads(call.text)["description"]
        header = replace(
            log.header,
            id=new_id(self._rng),
            created_at=log.time + 3,
            parent=log.header.id,
            inherited=None,
            origin="subagent",
            depth=log.header.depth + 1,
        )
        parent.catalogue(header, label)
        with self._room(header, self._plan.child_weight) as room:
            child = Session(Log(header, room.file.write), parent.model, parent.prompt, self._rng)
            child.describe(label)
            child.open(delegated=True)
            answer = self._turns(child, room).assigned(json.loads(call.text)["prompt"])
            self._finish(child, room)
        log.time = child.log.time
        return answer

    def _play(self, session: Session, room: Room, *, is_dangling: bool = False) -> None:
        """Turns until the room is used up, and perhaps one more that is never ended."""
        turns = self._turns(session, room)
        while room.is_left():
            self._pause(session)
            self._sample.deck.play(turns)
        if is_dangling:
            self._pause(session)
            turns.dangling()
        self._finish(session, room)

    def _pause(self, session: Session) -> None:
        """Time between turns; after a night the harness starts anew, before some turns it compacts."""
        session.log.wait(self._rng.choice(PAUSES))
        if self._rng.random() < 0.03 and session.log.time < LAST_DAY - LONGEST:
            session.log.wait(NIGHT)
            session.resume()
        if self._rng.random() < 0.02:
            session.compact(self._content.prose(300))

    def _turns(self, session: Session, room: Room) -> Turns:
        return Turns(session, self._content, self._rng, room.dials, room.is_left)

    def _prompt(self, room: Room) -> Prompt:
        return build_prompt(self._sample.words, self._rng, min(PROMPT_TOKENS, room.share // 30))

    @contextmanager
    def _room(self, header: Header, weight: float) -> Iterator[Room]:
        sample = self._sample
        share = sample.budget.take(weight)
        path = log_path(sample.root, header.cwd, header.id, header.version, raw=sample.raw)
        with LogFile(path, raw=sample.raw) as file:
            yield Room(file, share)
        sample.budget.settle(share, file.decoded_bytes)

    def _finish(self, session: Session, room: Room) -> None:
        session.log.flush()
        self._sample.summary.add(session.log, room.file)
