"""Two counts of the same logs: the models, and plain Python that shares no code with them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agreement import differences
from counter import Session, count, window
from counter_tools import union
from drawn import Drawn
from drawn_families import write_family
from lakes import START_MS
from turnlake.api import connect
from turnlake.cli import main

MINUTE = 60_000


def disagreements(root: Path, lake: Path, sessions: list[Session]) -> list[str]:
    """Where a real build of the logs below a sessions root and the second count differ."""
    assert main(["build", str(root), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    with connect(lake) as db:
        return differences(db, sessions)


def drawn_disagreements(scripts: list[tuple[int, int]]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        paths = [path for number, script in enumerate(scripts) for path in write_family(root, number, *script)]
        return disagreements(root, Path(folder) / "lake", [count(path.read_bytes()) for path in paths])


# A seed and a number of turns, each drawn from both: who looks for the cause of a difference takes fewer. A build an
# example is too dear to have hypothesis do it.
SCRIPT = st.tuples(st.integers(0, 1 << 20), st.integers(1, 5))


@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])
@given(st.lists(SCRIPT, min_size=1, max_size=20))
def test_the_marts_agree_with_the_second_count(scripts: list[tuple[int, int]]) -> None:
    assert drawn_disagreements(scripts) == []


def test_the_marts_agree_on_many_sessions() -> None:
    assert drawn_disagreements([(seed, 4) for seed in range(90)]) == []


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize("version", range(5))
def test_the_marts_agree_on_a_synthetic_sample(version: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    words = f"--sessions 16 --mb 0.6 --version {version} --seed 3".split()
    assert main(["sample", str(root), *words, "-q"]) == 0
    paths = sorted(root.rglob("session*.jsonl*"))
    assert len(paths) == 16
    assert disagreements(root, tmp_path / "lake", [count(path.read_bytes()) for path in paths]) == []


def test_a_broken_line_in_a_copied_part_leaves_it_the_parents(tmp_path: Path) -> None:
    drawn = Drawn(Random(1), 4, "s", parentSession="p", isSeeded=True)
    for _ in range(2):
        drawn.play()
    drawn.event("session/end-seed", {"inherited": True})
    drawn.play()
    drawn.lines[2] = b'{"type":"turn/sta'
    path = tmp_path / "root" / "--w--" / "s" / "session.v4.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(line + b"\n" for line in (json.dumps(drawn.header).encode(), *drawn.lines)))
    assert disagreements(tmp_path / "root", tmp_path / "lake", [count(path.read_bytes())]) == []


# The second count itself, on logs small enough to count by hand


def log(*events: tuple[str, dict[str, Any]], **header: Any) -> Session:
    """A log of events one minute apart."""
    lines = [{"type": "session", "version": 0, "id": "s", "createdAt": START_MS} | header]
    lines += [
        {"type": type_, "seq": seq, "time": START_MS + seq * MINUTE, "data": data, "surfaceOp": "append"}
        for seq, (type_, data) in enumerate(events)
    ]
    return count(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


HERE = {"turn": 1, "step": 1}
ANSWER = HERE | {"message": {"content": [], "source": {"provider": "p", "model": "m"}}}


def usage(tokens: int) -> dict[str, Any]:
    return {"usage": {"inputTokens": tokens, "outputTokens": 1}}


def test_sample_and_message_are_one_call() -> None:
    chunk = HERE | {"chunk": {"type": "usage"} | usage(9)}
    session = log(("step/start", HERE), ("assistant/chunk", chunk), ("assistant/message", ANSWER | usage(5)))
    [call] = session.calls
    assert (call.id("s"), call.total, call.outcome, call.model) == ("s/1.1.1", 6, "message", ("p", "m"))
    assert (call.started, call.billed) == (START_MS, START_MS + 2 * MINUTE)


def test_a_retry_is_a_second_call_that_the_old_meter_forgets() -> None:
    failed = HERE | {"chunk": {"type": "usage"} | usage(9)}
    events = [("step/start", HERE), ("assistant/chunk", failed), ("llm/retry", HERE), ("llm/retry-started", HERE)]
    session = log(*events, ("assistant/message", ANSWER | usage(5)))
    assert [(call.total, call.outcome, sorted(call.meters)) for call in session.calls] == [
        (10, "failed", ["new"]),
        (6, "message", ["new", "old"]),
    ]


def test_a_turn_without_an_end_dangles_in_its_tools() -> None:
    calls = [{"type": "tool-call", "id": name, "name": "bash"} for name in ("a", "b")]
    message = HERE | {"message": {"content": calls}}
    events = [("turn/start", {"turn": 1}), ("step/start", HERE), ("assistant/message", message)]
    session = log(*events, ("tool/call", HERE | {"callId": "a", "name": "bash"}))
    turn = session.turns[1]
    assert (turn.state, turn.last_phase, turn.is_abandoned) == ("dangling", "tools", False)
    assert [(tool.call_id, tool.outcome, tool.exec) for tool in session.tools] == [
        ("a", "open", None),
        ("b", "open", None),
    ]


def test_what_a_parent_wrote_is_not_counted_again() -> None:
    turn = [("turn/start", {"turn": 1}), ("step/start", HERE), ("assistant/message", ANSWER | usage(5))]
    session = log(*turn, ("session/end-seed", {}), seedLength=3)
    assert (session.calls, session.turns) == ([], {})


def test_a_line_that_goes_back_is_another_branch() -> None:
    lines = [{"type": "session", "version": 0, "id": "s", "createdAt": 0}]
    lines += [{"type": "turn/start", "seq": seq, "time": 0, "data": {"turn": seq}} for seq in (0, 1, 1)]
    session = count(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + b'{"type":"turn/end"')
    assert [(event.branch, event.seq) for event in session.log.events] == [(0, 0), (0, 1), (1, 1)]


def test_a_minute_of_waiting_counts_once() -> None:
    assert union([(0, 10), (5, 15), (20, 30), (30, 30)]) == 25


@pytest.mark.parametrize(
    ("minutes_from_noon", "expected"),
    [(0, "off-peak"), (13 * 60, "peak"), (16 * 60 - 1, "peak"), (16 * 60, "off-peak"), (18 * 60, "peak")],
)
def test_windows_of_a_day(minutes_from_noon: int, expected: str) -> None:
    assert window(START_MS + minutes_from_noon * MINUTE) == expected
