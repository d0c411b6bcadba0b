"""Writes the logs of this folder, or of another one given as its argument; equal input gives equal logs.

stories.toml says what was asked and answered; here is who did it when, and what became of the log.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from random import Random

from story import Ask, Step, Use, read_stories

from turnlake.sample.calls import new_id
from turnlake.sample.content import Result, called, said, thought
from turnlake.sample.layout import log_path
from turnlake.sample.log import Log
from turnlake.sample.session import Session
from turnlake.sample.setting import FLASH, GREETING, LOCAL, PRO, TOOLS, Model, Prompt
from turnlake.sample.shapes import Header, Json, plugin_source, user_message
from turnlake.sample.storage import LogFile
from turnlake.sample.streams import Block

LANTERN = "/home/ana/lantern"
HARBOR = "/srv/build/harbor-api"
ATLAS = "/home/mei/\u9879\u76ee/atlas"
# The stored prompts are short, for the size of this folder; the tokens counted are those of real ones.
PROMPT = Prompt(GREETING, TOOLS[:8], 11_400)
BUSY: Json = {"message": "Too many requests, slow down", "code": "RATE_LIMIT", "status": 429}
USER_ABORT: Json = {"kind": "aborted", "reason": {"kind": "user"}}
STORIES, TUTORIAL = read_stories(Path(__file__).with_name("stories.toml"))
TIDES_SUMMARY = (
    "The user asked how the tide importer handles daylight saving. It used time.Date in the port's zone. The package "
    "comment now says so; 40 ports are concerned. The importer refuses the doubled hour unless the row has an offset."
)
TOKEN = re.compile(r" ?[A-Za-z]{1,9}|[0-9]{1,3}|\s|[^A-Za-z0-9\s]")


@dataclass
class Recording:
    """A session being played; its log stays in memory, as batches of lines, until it is stored."""

    session: Session
    rng: Random
    batches: list[Sequence[bytes]]


def begin(name: str, version: int, start: str, cwd: str, model: Model, *, ranges: bool = False) -> Recording:
    """A new session; its name decides all its ids and small delays."""
    rng = Random(f"sample {name}")
    header = Header(version, f"session-{new_id(rng)}", milliseconds(start), cwd)
    batches: list[Sequence[bytes]] = []
    session = Session(Log(header, batches.append, ranges=ranges), model, PROMPT, rng)
    session.open()
    return Recording(session, rng, batches)


def told(name: str, version: int, start: str, cwd: str, model: Model, *, ranges: bool = False) -> Recording:
    """A new session in which the whole story of this name was played."""
    return play(begin(name, version, start, cwd, model, ranges=ranges), STORIES[name])


def fork(parent: Recording, name: str, start: str) -> Recording:
    """A session that starts as a copy of the parent as it is now."""
    rng, log = Random(f"sample {name}"), parent.session.log
    log.flush()
    header = replace(log.header, id=f"session-{new_id(rng)}", created_at=milliseconds(start))
    header = replace(header, parent=log.header.id, inherited=log.seq)
    batches: list[Sequence[bytes]] = []
    return Recording(parent.session.fork(header, batches.append, parent.batches[1:]), rng, batches)


def subagent(parent: Recording, label: str) -> Recording:
    """A session that the parent starts for a task."""
    log = parent.session.log
    header = replace(log.header, id=new_id(parent.rng), created_at=log.time + 4, parent=log.header.id)
    header = replace(header, origin="subagent", depth=log.header.depth + 1)
    batches: list[Sequence[bytes]] = []
    session = Session(Log(header, batches.append), FLASH, PROMPT, parent.rng)
    session.describe(label)
    session.open(delegated=True)
    return Recording(session, parent.rng, batches)


def play(recording: Recording, asks: Sequence[Ask], start: str | None = None) -> Recording:
    """Play turns, some minutes apart; `start` resumes the session at that time."""
    session = recording.session
    for number, ask in enumerate(asks):
        if number == 0 and start:
            session.log.time = milliseconds(start)
            session.resume()
        else:
            session.log.wait(recording.rng.randrange(20_000, 400_000) if session.turn else 40)
        session.start_turn(ask.prompt, recording.rng.choice((1, 2, 2, 3, 6_500)))
        if ask.end == "blocked":
            session.end_turn({"kind": "blocked"})
            continue
        for step in ask.steps:
            work(recording, step, is_last=ask.end == "dangling" and step is ask.steps[-1])
        if ask.end != "dangling":
            finish(recording, ask)
    return recording


def work(recording: Recording, step: Step, *, is_last: bool = False) -> None:
    """A step with tool calls; the last one of all stops after the first call has started."""
    session = recording.session
    session.start_step()
    calls = [call(recording, use) for use in step.uses]
    blocks = [thought(tokens(step.thought))] if step.thought else []
    blocks += [said(tokens(step.remark))] if step.remark else []
    session.answer([*blocks, *calls])
    if is_last:
        session.start_call(calls[0])
        return
    started = [session.start_call(block) for block in calls]
    for block, use, seq in zip(calls, step.uses, started, strict=True):
        if use.asks:
            session.approve(block, use.asks, use.waited_ms, use.outcome)
        session.end_call(block, seq, Result(use.output, use.milliseconds, use.is_error))
    session.end_step()


def finish(recording: Recording, ask: Ask) -> None:
    """The step that a turn ends with."""
    session = recording.session
    session.start_step()
    reason: Json | None = None
    if ask.end == "completed":
        session.answer([*([thought(tokens(ask.thought))] if ask.thought else []), said(tokens(ask.answer))])
    elif ask.end == "empty":
        session.cut_off([], output=32_000)
        reason = {"kind": "max-tokens"}
    elif ask.end == "aborted":
        session.interrupt([said(tokens(ask.answer))])
        reason = USER_ABORT
    elif ask.end == "failed":
        retry_id = session.new_id()
        for number in range(1, ask.retries + 1):
            session.fail(BUSY)
            session.retry(retry_id, number, BUSY)
        session.fail(BUSY)
        reason = {"kind": "error", "error": BUSY}
    session.end_step()
    session.end_turn(reason)


def delegate(parent: Recording, ask: Ask, label: str, child_ask: Ask, answer: str) -> Recording:
    """A turn in which the agent gives a part to a subagent and waits for it; gives the subagent's recording."""
    session = parent.session
    session.log.wait(40)
    session.start_turn(ask.prompt)
    for step in ask.steps:
        work(parent, step)
    session.start_step()
    block = call(parent, Use("subagent", {"prompt": child_ask.prompt, "description": label}, ""))
    session.answer([block])
    seq = session.start_call(block)
    child = subagent(parent, label)
    session.catalogue(child.session.log.header, label)
    play(child, [child_ask])
    session.log.time = child.session.log.time
    session.end_call(block, seq, Result(child_ask.answer, 6))
    session.end_step()
    session.start_step()
    session.answer([said(tokens(answer))])
    session.end_step()
    session.end_turn()
    return child


def entitle(recording: Recording, title: str) -> None:
    """A model finds a title; the log names the call, but never what it used."""
    session, log = recording.session, recording.session.log
    prompts = [log.surface[1 if session.version > 2 else 0]]
    route = {"provider": FLASH.provider, "model": FLASH.name}
    provider = "session-title-first-prompt-llm"
    message = user_message(session.new_id(), [title], plugin_source(session.version, "dsh-session-title-llm"))
    request = {"titleProvider": provider, "messageSeqs": prompts, "route": route, "system": "Find a short title."}
    log.event("session/title-llm-request", {**request, "messages": [message], "maxTokens": 4096})
    log.wait(1200)
    source = {"kind": "provider", "provider": provider, "model": route}
    log.event("session/title", {"title": title, "messageSeqs": prompts, "source": source})


def call(recording: Recording, use: Use) -> Block:
    """The block of a tool call."""
    call_id = f"call_00_{recording.rng.getrandbits(64):016x}"
    return called(call_id, use.tool, tokens(use.text))


def tokens(text: str) -> list[str]:
    """A text in the pieces in which a model would send it."""
    return TOKEN.findall(text)


def milliseconds(instant: str) -> int:
    """An instant of UTC in Unix milliseconds."""
    return int(datetime.fromisoformat(f"{instant}+00:00").timestamp() * 1000)


def store(root: Path, recording: Recording, *, raw: bool = False, lose: int = 0, break_line: int | None = None) -> None:
    """Write the log into its folder, without its last `lose` bytes, or with line `break_line` cut short."""
    log = recording.session.log
    log.flush()
    batches = [list(lines) for lines in recording.batches]
    if break_line is not None:
        batches = broken(batches, break_line)
    path = log_path(root, log.header.cwd, log.header.id, log.header.version, raw=raw)
    with LogFile(path, raw=raw) as file:
        for lines in batches:
            file.write(lines)
    if lose:
        path.write_bytes(path.read_bytes()[:-lose])


def broken(batches: list[list[bytes]], number: int) -> list[list[bytes]]:
    """The lines with the one of this number (from 1, the header) cut in its middle, as a full disk would."""
    ends = list(accumulate(len(lines) for lines in batches))
    batch = next(index for index, end in enumerate(ends) if number <= end)
    place = number - 1 - (ends[batch - 1] if batch else 0)
    line = batches[batch][place]
    batches[batch][place] = line[: len(line) // 2] + b"\n"
    return batches


def lantern(root: Path) -> None:
    """Ana's shop: compressed logs, from several format versions as she upgraded in the middle of the week."""
    export = play(begin("export", 0, "2026-09-14T07:12", LANTERN, PRO), STORIES["export"][:2])
    store(root, play(fork(export, "export fork", "2026-09-14T12:31"), STORIES["export_fork"]))
    store(root, play(export, STORIES["export"][2:]))
    store(root, told("checkout", 0, "2026-09-14T14:05", LANTERN, PRO, ranges=True))
    store(root, told("labels", 1, "2026-09-15T08:40", LANTERN, FLASH, ranges=True), lose=60)
    # The same session before and after a newer product opened it.
    store(root, told("rename", 0, "2026-09-15T13:20", LANTERN, FLASH))
    renamed = told("rename", 3, "2026-09-15T13:20", LANTERN, FLASH)
    store(root, play(renamed, STORIES["rename_later"], start="2026-09-16T07:05"))
    store(root, told("payment", 3, "2026-09-16T09:15", LANTERN, PRO))
    audit = begin("audit", 4, "2026-09-17T11:50", LANTERN, PRO)
    answer = "Two packages are older than two years; one licence of 60 is not permissive: GPL-3.0."
    child = delegate(audit, STORIES["audit"][0], "dependency ages", STORIES["audit_child"][0], answer)
    entitle(audit, "Audit of dependencies")
    store(root, child)
    store(root, play(audit, STORIES["audit"][1:]))
    store(root, told("report", 4, "2026-09-18T10:02", LANTERN, FLASH))


def harbor(root: Path) -> None:
    """The API of Tom's team on a build server: compressed logs."""
    store(root, told("limiter", 0, "2026-09-14T09:30", HARBOR, PRO))
    store(root, told("openapi", 2, "2026-09-15T06:45", HARBOR, FLASH))
    tides = play(begin("tides", 2, "2026-09-15T15:10", HARBOR, PRO), STORIES["tides"][:3])
    tides.session.log.wait(30_000)
    tides.session.compact(TIDES_SUMMARY)
    store(root, play(tides, STORIES["tides"][3:]))
    store(root, told("release", 3, "2026-09-16T13:25", HARBOR, PRO))
    store(root, told("load", 4, "2026-09-17T08:20", HARBOR, FLASH))
    panic = told("panic", 4, "2026-09-17T05:55", HARBOR, PRO)
    entitle(panic, "Panic in the night log")
    store(root, panic, break_line=14)
    store(root, told("tracing", 4, "2026-09-18T14:40", HARBOR, PRO))


def atlas(root: Path) -> None:
    """Mei's maps: raw logs."""
    store(root, told("tiles", 3, "2026-09-13T03:20", ATLAS, PRO), raw=True)
    store(root, told("local", 3, "2026-09-14T16:00", ATLAS, LOCAL), raw=True, lose=400)
    census = told("census", 4, "2026-09-15T02:35", ATLAS, FLASH)
    entitle(census, "Census compared with last year")
    store(root, census, raw=True)
    store(root, told("legend", 4, "2026-09-16T08:10", ATLAS, FLASH), raw=True)
    routes = told("routes", 4, "2026-09-17T15:30", ATLAS, PRO)
    store(root, play(routes, STORIES["routes_next_day"], start="2026-09-18T01:40"), raw=True)
    store(root, told("newer", 5, "2026-09-18T16:15", ATLAS, FLASH), raw=True)


def tutorial(root: Path) -> None:
    """A log as tutorials show it: no header, blocks named otherwise, a name of its own."""
    path = root / "tutorial" / "agent-run.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{line}\n" for line in TUTORIAL), encoding="utf-8")


def main() -> None:
    """Write all logs, in place of those of an earlier run."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for folder in [*root.glob("--*--"), root / "tutorial"]:
        shutil.rmtree(folder, ignore_errors=True)
    for write in (lantern, harbor, atlas, tutorial):
        write(root)


if __name__ == "__main__":
    main()
