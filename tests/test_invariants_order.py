"""Statements that never refuse a log: each has smallest logs that break it and nothing else, and logs that keep it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from drawn import Drawn
from logs import (
    USAGE,
    VERSIONS,
    Object,
    Session,
    Stored,
    as_raw,
    codes,
    dumps,
    faults,
    file_name,
    read,
    read_bytes,
    text,
)
from test_invariants import ENDED, Act, replace, request_header
from turnlake.findings import CODES
from turnlake.messages.log import Log, read_log
from turnlake.sample.write import write_sample

BEFORE_3, FROM_2, FROM_3 = (0, 1, 2), (2, 3, 4), (3, 4)
MODEL = {"provider": "deepseek-official", "model": "deepseek-v4-pro"}
CHAIN = {"retryId": "y", "provider": MODEL["provider"], "mode": "always", "policyKey": "k"}


def acts(*steps: Act) -> Act:
    """One act after the other."""

    def act(session: Session) -> None:
        for step in steps:
            step(session)

    return act


def event(type_: str, **data: Any) -> Act:
    return lambda s: s.add(type_, data)


def asked(act: Act) -> Act:
    """An act in an open step with a request header, seq 3."""
    return acts(lambda s: s.open_step(), request_header(), act)


def next_step(session: Session) -> None:
    session.step_end()
    session.step_start()


def retry(number: int = 1, **data: Any) -> Act:
    return lambda s: s.add("llm/retry", CHAIN | s.place | {"retry": number} | data)


def retry_of_old(number: int) -> Act:
    data = {key: value for key, value in CHAIN.items() if key != "retryId"}
    return lambda s: s.add("llm/retry", data | s.place | {"retry": number})


def started(number: int = 1, **data: Any) -> Act:
    return lambda s: s.add("llm/retry-started", {"retryId": "y"} | s.place | {"retry": number} | data)


def compaction(part: str, *, id_: str = "k", turn: int | None = 1, **data: Any) -> Act:
    place = {} if part == "summary" else {"turn": turn}
    return event(f"compaction/{part}", compactionId=id_, **place, **data)


START, SUMMARY, END = (compaction(part) for part in ("start", "summary", "end"))
FAILED = compaction("end", error="no")
START_OUTSIDE, FAILED_OUTSIDE = compaction("start", turn=None), compaction("end", turn=None, error="no")


def called(session: Session) -> None:
    """A call with its result, the last event."""
    session.assistant("", [("c1", "bash", "{}")])
    session.result(sourceEventSeqs=[session.call()])


def pruning(*between: Act) -> Act:
    """A prune of a result, what is put between, and the result that replaces it."""

    def act(session: Session) -> None:
        called(session)
        seq = session.seq - 1
        session.add("compaction/prune", {"shadowedSeqs": [seq], "shadowedRange": {"start": seq, "end": seq}})
        acts(*between)(session)
        data = session.place | {"message": session.result_message(words="short") | {"id": f"r{seq}"}}
        op = replace(session.version, seq, seq)
        session.add("tool/result", data, surfaceOp=op, sourceEventSeqs=[seq])

    return act


def dispatch(end: str = "-start", sub: str = "c1:code:1", **data: Any) -> Act:
    """The start of a nested call, or with an empty end its settling."""
    named = {"rootCallId": "c1", "parentCallId": "c1", "subCallId": sub, "name": "read", "arguments": {"b": 1, "a": 2}}
    return lambda s: s.add(f"tool/{'code' if s.version < 3 else 'ptc'}-dispatch{end}", named | data)


def settled(sub: str = "c1:code:1", **data: Any) -> Act:
    return dispatch("", sub, isError=False, content=[], **data)


def command(kind: str = "success", id_: str = "d", **data: Any) -> Act:
    return acts(
        event("command/run", commandId="d", name="n", source={"kind": "user"}),
        event("command/done", commandId=id_, kind=kind, **data),
    )


def title(*seqs: int, kind: str = "fallback") -> Act:
    return event("session/title", title="T", messageSeqs=list(seqs), source={"kind": kind})


def delivery(through: int = 0, session: str = "s1") -> Act:
    return event("session-log-deepseek/delivery-accepted", sessionId=session, throughSeq=through)


def child(id_: str = "x") -> Act:
    return event("subagent/catalog", version=0, childId=id_, childCreatedAt=1, mode="one-shot")


def spent(**usage: Any) -> Act:
    """A message whose usage has these members too; before v2 its chunks say the same."""

    def act(session: Session) -> None:
        stated = USAGE | usage
        sources, stream = {}, []
        if session.version < 2:
            sources = {"sourceEventSeqs": [session.chunk({"type": "usage", "usage": stated})]}
        else:
            stream = [{"type": "chunk", "time": 1, "chunk": {"type": "usage", "usage": stated}}]
        message = {"id": f"a{session.seq}", "role": "assistant", "content": [text("a")]}
        data = session.place | {"message": message | {"source": {"kind": "model"} | MODEL}}
        data |= {"stream": stream} if session.version >= 2 else {"usage": stated}
        session.add("assistant/message", data, surfaceOp="append", **sources)

    return act


def failed(**usage: int) -> Act:
    """An attempt without a message."""
    records = [{"type": "chunk", "time": 1, "chunk": {"type": "usage", "usage": USAGE | usage}}]
    return lambda s: s.add("assistant/attempt", s.place | {"stream": records})


# Code, versions, and an act that breaks the statement.
WARNINGS: list[tuple[str, tuple[int, ...], Act]] = [
    ("INV-16", VERSIONS, asked(acts(ENDED, lambda s: s.user()))),
    ("INV-16", VERSIONS, lambda s: s.user()),
    ("INV-29", VERSIONS, asked(acts(ENDED, event("request/context", **MODEL)))),
    ("INV-29", VERSIONS, asked(request_header("initial"))),
    ("INV-30", VERSIONS, acts(lambda s: s.open_step(), lambda s: s.assistant())),
    ("INV-30", FROM_2, acts(lambda s: s.open_step(), failed(), request_header())),
    ("INV-30", (0, 1), acts(lambda s: s.open_step(), lambda s: s.chunk({"type": "x"}), request_header())),
    ("INV-30", (0, 1), acts(lambda s: s.open_step(), lambda s: s.packed(["a", "b", "c"]), ENDED)),
    ("INV-34", VERSIONS, asked(retry(step=2))),
    ("INV-34", VERSIONS, asked(acts(ENDED, retry()))),
    ("INV-34", VERSIONS, asked(retry(provider="other"))),
    ("INV-34", VERSIONS, asked(retry(2))),
    ("INV-34", VERSIONS, asked(acts(retry(), retry(1)))),
    ("INV-34", VERSIONS, asked(acts(retry(), retry(2, retryId="z")))),
    ("INV-34", VERSIONS, asked(acts(retry(), next_step, retry()))),
    ("INV-34", VERSIONS, asked(started())),
    ("INV-34", VERSIONS, asked(acts(retry(), started(), started()))),
    ("INV-34", VERSIONS, asked(acts(retry(), started(2)))),
    ("INV-34", VERSIONS, asked(acts(retry(), started(retryId="z")))),
    ("INV-34", VERSIONS, asked(retry(turn={}, step=[], retryId=["y"]))),
    ("INV-35", VERSIONS, asked(acts(START, START, FAILED))),
    ("INV-35", VERSIONS, asked(END)),
    ("INV-35", VERSIONS, asked(SUMMARY)),
    ("INV-35", VERSIONS, asked(acts(START, SUMMARY, compaction("end", id_="other")))),
    ("INV-35", VERSIONS, asked(acts(START, END))),
    ("INV-35", VERSIONS, asked(acts(START, SUMMARY, SUMMARY, END))),
    ("INV-35", VERSIONS, asked(acts(START, SUMMARY, SUMMARY, FAILED))),
    ("INV-35", VERSIONS, asked(acts(START, event("session/end-seed"), FAILED))),
    ("INV-36", BEFORE_3, asked(lambda s: _checkpoint(s, end=3))),
    ("INV-37", VERSIONS, asked(acts(START_OUTSIDE, FAILED_OUTSIDE))),
    ("INV-37", VERSIONS, asked(acts(ENDED, START, FAILED))),
    ("INV-37", VERSIONS, asked(acts(START, compaction("end", turn=2, error="no")))),
    ("INV-37", VERSIONS, asked(acts(START, ENDED, FAILED))),
    ("INV-37", VERSIONS, asked(acts(ENDED, START_OUTSIDE, lambda s: s.turn(), FAILED_OUTSIDE))),
    ("INV-38", VERSIONS, asked(pruning(event("todo/write")))),
    ("INV-38", (0, 1), asked(pruning(lambda s: s.chunk({"type": "x"})))),
    ("INV-38", VERSIONS, asked(acts(event("compaction/prune", shadowedSeqs=[1]), called))),
    ("INV-39", VERSIONS, asked(acts(ENDED, dispatch()))),
    ("INV-39", VERSIONS, asked(acts(dispatch(), ENDED, settled()))),
    ("INV-39", VERSIONS, asked(settled())),
    ("INV-39", VERSIONS, asked(acts(dispatch(), dispatch()))),
    ("INV-39", VERSIONS, asked(acts(dispatch(), settled(), settled()))),
    ("INV-39", VERSIONS, asked(acts(dispatch(), settled(name="write")))),
    ("INV-39", VERSIONS, asked(acts(dispatch(), settled(arguments={})))),
    ("INV-39", VERSIONS, asked(dispatch(parentCallId="c1:code:7"))),
    ("INV-40", VERSIONS, asked(command(id_="other"))),
    ("INV-40", VERSIONS, asked(command("error", sourceEventSeq=2))),
    ("INV-40", VERSIONS, asked(command(sourceEventSeq=99))),
    ("INV-40", VERSIONS, asked(command(sourceEventSeq=4))),
    ("INV-41", VERSIONS, asked(title(2, 3))),
    ("INV-41", VERSIONS, asked(title(9))),
    ("INV-41", VERSIONS, asked(title())),
    ("INV-41", VERSIONS, asked(title(2, kind="user"))),
    ("INV-42", VERSIONS, asked(delivery(4))),
    ("INV-42", VERSIONS, asked(delivery(session="other"))),
    ("INV-44", FROM_3, asked(acts(child(), child("y"), child()))),
    ("INV-46", VERSIONS, asked(lambda s: s.assistant())),
    ("INV-49", VERSIONS, asked(spent(reasoningTokens=3))),
    ("INV-49", VERSIONS, asked(spent(totalTokens=11))),
    ("INV-49", FROM_2, asked(failed(cacheReadTokens=1, totalTokens=10))),
    ("INV-49", VERSIONS, asked(acts(START, compaction("summary", usage=USAGE | {"totalTokens": 9}), END))),
    ("INV-50", VERSIONS, asked(lambda s: [s.add("user/message", _message("m"), surfaceOp="append") for _ in "ab"])),
]  # fmt: skip


def _message(id_: str) -> Object:
    return {"id": id_, "role": "user", "content": [], "source": {"kind": "user"}}


def _checkpoint(session: Session, end: int = 2) -> None:
    """A whole compaction of the user message; `end` is where its summary says that its range ends."""
    acts(START, compaction("summary", shadowedSeqs=[2], shadowedRange={"start": 2, "end": end}))(session)
    source = {"kind": "plugin", "plugin": "compact"} if session.version < 4 else {"kind": "compact-checkpoint"}
    message = _message("k") | {"source": source | {"compactionId": "k"}}
    session.add("user/message", message, surfaceOp=replace(session.version, 2, 2), sourceEventSeqs=[4, 5, 2])
    END(session)


KEPT: dict[str, tuple[tuple[int, ...], Act]] = {
    "a retry that starts": (VERSIONS, acts(retry(), started(), retry(2), started(2), lambda s: s.assistant())),
    "a retry that is cancelled": (VERSIONS, retry()),
    "a retry behind its step": (VERSIONS, lambda s: (s.step_end(), retry()(s))),
    "a series for each step": (VERSIONS, acts(retry(), next_step, retry(retryId="z"))),
    "a series for each policy": (VERSIONS, acts(retry(), retry(1, retryId="z", policyKey="l"))),
    "retries without an id": ((0,), acts(retry_of_old(1), retry_of_old(2))),
    "a compaction": (VERSIONS, _checkpoint),
    "compactions that fail": (VERSIONS, acts(START, FAILED, START, SUMMARY, FAILED)),
    "a compaction between turns": (
        VERSIONS, acts(ENDED, compaction("start", turn=None), SUMMARY, compaction("end", turn=None))),
    "a compaction that a crash cut": (
        VERSIONS, acts(START, ENDED, event("session/end-seed"), compaction("start", id_="l", turn=None),
                       compaction("end", id_="l", turn=None, error="no"))),
    "a pruned result": (VERSIONS, pruning()),
    "a prune at the end": (VERSIONS, event("compaction/prune", shadowedSeqs=[2])),
    "nested calls": (VERSIONS, acts(dispatch(), dispatch(sub="c1:code:1:code:1", parentCallId="c1:code:1"),
                                    settled("c1:code:1:code:1", parentCallId="c1:code:1"),
                                    settled(arguments={"a": 2, "b": 1}))),
    "nested calls of a call id that comes again": (
        VERSIONS, acts(called, dispatch(), settled(), next_step, called, dispatch(), settled())),
    "commands": (VERSIONS, acts(command(), command("error"), command(sourceEventSeq=2))),
    "titles": (VERSIONS, acts(title(2), title(kind="user"), title(2, kind="provider"))),
    "a delivery": (VERSIONS, delivery()),
    "children": (FROM_3, acts(child(), child("y"))),
    "usages": (VERSIONS, acts(spent(totalTokens=10, reasoningTokens=2), spent(cacheReadTokens=5, totalTokens=15))),
    "a usage that is none": (VERSIONS, spent(totalTokens="many", reasoningTokens=[])),
    "a change of the header": (VERSIONS, acts(request_header("change"), event("request/context", **MODEL))),
}  # fmt: skip


def session_of(version: int, act: Act) -> Session:
    """A log in which nothing but act was done."""
    session = Session(version)
    act(session)
    return session


def log_after(version: int, act: Act) -> Log:
    return read(session_of(version, act))


@pytest.mark.parametrize(
    ("code", "version", "act"),
    [
        pytest.param(code, version, act, id=f"{code}-{number}-v{version}")
        for number, (code, versions, act) in enumerate(WARNINGS)
        for version in versions
    ],
)
def test_a_breach_is_told_once_and_nothing_else_is(code: str, version: int, act: Act) -> None:
    log = log_after(version, act)
    [finding] = [finding for finding in log.findings if finding.code == code]
    assert codes(log) - {"INV-30", "INV-46"} <= {code}
    assert log.verdict.verdict == "clean"
    severity = finding.severity or CODES[code].severity
    assert severity == CODES[code].severity != "error"
    assert finding.detail and finding.line is not None and finding.seq is not None
    assert log.records[finding.line - 2].seq <= finding.seq


@pytest.mark.parametrize(
    ("version", "act"),
    [
        pytest.param(version, act, id=f"{name}-v{version}")
        for name, (versions, act) in KEPT.items()
        for version in versions
    ],
)
def test_what_keeps_them_all(version: int, act: Act) -> None:
    log = log_after(version, asked(act))
    assert (faults(log), log.verdict.verdict) == ((), "clean")
    assert "INV-30" not in codes(log)


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_hold_the_same_findings(version: int) -> None:
    """Chunks may take a shorter way there."""
    for code, versions, act in WARNINGS:
        if version in versions:
            session = session_of(version, act)
            told = [(one.code, one.detail, one.line, one.seq) for one in faults(read(session))]
            stored = Stored(session.raw, file_name(version)).findings
            assert [tuple(row[key] for key in ("code", "detail", "line", "seq")) for row in stored] == told, code


def test_what_comes_often_is_told_once_with_its_count() -> None:
    log = log_after(4, asked(acts(*[spent(totalTokens=11)] * 1200)))
    [finding] = faults(log)
    assert (finding.code, finding.seq, finding.line) == ("INV-49", 4, 6)
    assert finding.detail.endswith("; 1,200 times in all")


BROKEN_BY_THE_PARENT: dict[str, Act] = {
    "INV-16": acts(ENDED, lambda s: s.user()),
    "INV-42": acts(delivery(session="parent"), ENDED),
    "INV-44": acts(child(), child(), ENDED),
    "INV-49": acts(spent(totalTokens=11), ENDED),
}


@pytest.mark.parametrize("code", BROKEN_BY_THE_PARENT)
@pytest.mark.parametrize("version", FROM_3)
def test_what_is_inherited_is_not_told_again(code: str, version: int) -> None:
    session = Session(version, isSeeded=True, parentSession="parent")
    asked(BROKEN_BY_THE_PARENT[code])(session)
    assert code in codes(read(session))
    session.add("session/end-seed", {"inherited": True})
    child()(session)
    assert read(session).findings == ()


def test_before_v2_the_header_says_what_is_inherited() -> None:
    session = Session(0, seedLength=2, parentSession="parent")
    for _ in range(2):
        session.add("todo/write")
        delivery(session="parent")(session)
    assert [(finding.code, finding.seq) for finding in read(session).findings] == [("INV-42", 3)]


@pytest.mark.parametrize("version", [0, 1])
def test_a_prefix_that_ends_inside_an_attempt(version: int) -> None:
    for seed_length, told in ((4, set()), (6, {"INV-43"}), (14, set())):
        session = Session(version, seedLength=seed_length, parentSession="p").open_step()
        request_header()(session)
        session.assistant()
        assert session.seq == 14 and codes(read(session)) == {"INV-46"} | told


def test_a_log_without_header_is_spared_what_its_dialect_lacks() -> None:
    session = Session(0).turn()
    log = read_bytes(as_raw(session.lines[1:]), "notes.jsonl")
    assert log.verdict.dialect == "tutorial" and codes(log) == set()


class Calm(Drawn):
    """A drawn session in which nobody dies, and nothing is odd that a harness would not write."""

    fuse = property(lambda self: -1, lambda self, value: None)  # type: ignore[assignment]

    def chance(self, share: float) -> bool:
        return share == 0.95 or (share >= 0.05 and super().chance(share))


def graver(log: Log) -> Iterator[str]:
    for finding in log.findings:
        if (finding.severity or CODES[finding.code].severity) != "advisory":
            yield f"{finding.code} {finding.detail}, line {finding.line}"


@pytest.mark.parametrize("version", VERSIONS)
def test_drawn_sessions_keep_them_all(version: int) -> None:
    for seed in range(25):
        drawn = Calm(Random(f"calm {seed}"), version, "s1")
        for _ in range(6):
            drawn.play()
        log = read_bytes(as_raw([dumps(drawn.header), *drawn.lines]), file_name(version))
        assert (list(graver(log)), log.verdict.verdict) == ([], "clean"), seed


@pytest.mark.parametrize("version", VERSIONS)
def test_made_sessions_keep_them_all(version: int, tmp_path: Path) -> None:
    write_sample(tmp_path, sessions=8, megabytes=0.2, version=version, seed=7)
    logs = [read_log(path) for path in sorted(tmp_path.rglob("session*")) if path.is_file()]
    assert logs and [told for log in logs for told in graver(log)] == []
    assert set().union(*map(codes, logs)) <= {"INV-46"}


def test_a_turn_that_ends_behind_the_bad_line_of_a_refused_log_is_not_called_open() -> None:
    session = Session(4)
    session.open_step()
    session.line(b"{not json")
    accepted = read(session)
    assert accepted.verdict.verdict == "removable_tail" and "INV-46" in codes(accepted)
    session.step_end()
    session.turn_end()
    refused = read(session)
    assert refused.verdict.verdict == "refused" and "INV-46" not in codes(refused)
