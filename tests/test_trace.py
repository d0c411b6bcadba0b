"""`turnlake trace`: an event to its sources and dependents, a call from end to end, the events of a turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logs import Session, file_name, write
from test_show import compacted
from turnlake.cli import main
from turnlake.messages.log import read_log

Capture = pytest.CaptureFixture[str]
Traced = Callable[..., Any]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    write(root, compacted().raw)
    old = Session(0, id="old")
    old.open_step()
    old.packed(["Hel", "lo"])
    old.assistant("Hello", [("c1", "bash", "{}")])
    old.result(sourceEventSeqs=[old.call()])
    old.step_end()
    old.turn_end()
    write(root, old.raw, file_name(0), "old")
    return root


@pytest.fixture(scope="module")
def lake(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("lakes") / "lake"
    assert main(["build", str(root), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    return lake


@pytest.fixture
def traced(lake: Path, capsys: Capture) -> Traced:
    """What `turnlake trace WORDS…` prints: parsed with --json, else text."""

    def trace(*words: str) -> Any:
        capsys.readouterr()
        assert main(["trace", *words, "--lake", str(lake)]) == 0
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in words else out

    return trace


def seq_of(root: Path, name: str, type_: str) -> int:
    log = read_log(next((root / "--w--" / name).iterdir()))
    return int(next(event["seq"] for event in log.events if event["type"] == type_))


def test_a_message_leads_to_its_chunks_and_their_lines(traced: Traced, root: Path) -> None:
    seq = seq_of(root, "old", "assistant/message")
    found = traced("old", "--seq", str(seq), "--json")
    lines = next((root / "--w--" / "old").iterdir()).read_bytes().splitlines(keepends=True)
    assert found["event"]["line"] == 1 + next(n for n, line in enumerate(lines) if b'"assistant/message"' in line)
    named = read_log(next((root / "--w--" / "old").iterdir())).events[seq]["sourceEventSeqs"]
    assert [row["seq"] for row in found["sources"]] == named
    for row in found["sources"]:
        assert row["byte_offset"] == len(b"".join(lines[: row["line"] - 1]))
    assert "Hello" in traced("old", "--seq", str(seq))


def test_a_chunk_leads_to_the_message_it_became(traced: Traced, root: Path) -> None:
    seq = seq_of(root, "old", "assistant/message")
    found = traced("old", "--seq", str(seq - 1), "--json")
    assert found["event"]["type"].startswith("assistant/chunk")
    assert [row["seq"] for row in found["dependents"]] == [seq]


def test_the_stream_of_a_newer_message_is_told_by_position(traced: Traced, root: Path) -> None:
    seq = seq_of(root, "s1", "assistant/message")
    found = traced("s1", "--seq", str(seq), "--json")
    assert [row["position"] for row in found["sources"]] == list(range(len(found["sources"])))
    assert {row["seq"] for row in found["sources"]} == {seq}
    assert f"#{seq}[1]–[11] 11 × chunk text-delta" in traced("s1", "--seq", str(seq))


def test_a_call_leads_to_its_result_and_to_what_replaced_that(traced: Traced, root: Path) -> None:
    call = seq_of(root, "old", "tool/call")
    found = traced("old", "--seq", str(call), "--json")
    assert [(row["depth"], row["type"]) for row in found["dependents"]] == [(1, "tool/result")]
    assert {row["type"] for row in found["related"]} == {"assistant/message", "tool/result"}


def test_a_summary_leads_down_to_the_chunks_of_what_it_replaced(traced: Traced, root: Path) -> None:
    found = traced("s1", "--seq", "4", "--json")
    [summary] = found["dependents"]
    assert summary["is_replacement"] and summary["type"] == "user/message"
    out = traced("s1", "--seq", str(summary["seq"]))
    assert "  #4 user/message" in out and "× chunks" in out
    lines = out.splitlines()
    [answer] = [number for number, line in enumerate(lines) if line.startswith("  #7 assistant/message")]
    assert lines[answer + 1].startswith("    #7[0]")


def test_a_compaction_goes_with_its_events(traced: Traced, root: Path) -> None:
    found = traced("s1", "--seq", str(seq_of(root, "s1", "compaction/start")), "--json")
    assert [row["type"] for row in found["related"]] == ["compaction/summary", "compaction/end"]


def test_a_call_from_end_to_end(traced: Traced) -> None:
    found = traced("s1", "--call", "c1", "--json")
    types = ["assistant/message", "tool/call", "approval/asked", "approval/decided", "tool/result"]
    assert [row["type"] for row in found["events"]] == types
    assert found["call"]["outcome"] == "ok" and found["call"]["approval_wait_ms"] == 1
    out = traced("s1", "--call", "c1")
    assert "1 ms for approval" in out and "1 ms before its start" in out


def test_the_events_of_a_turn(traced: Traced) -> None:
    found = traced("s1", "--turn", "2", "--json")
    assert [found[0]["type"], found[-1]["type"]] == ["turn/start", "turn/end"]
    assert {row["turn"] for row in found} == {2}
    out = traced("s1", "--turn", "2").splitlines()
    assert out[0].split() == ["seq", "step", "type", "outcome", "chunks", "line", "byte", "payload"]
    assert len(out) == len(found) + 1


def test_all_chunks_one_by_one(traced: Traced, root: Path) -> None:
    seq = str(seq_of(root, "s1", "assistant/message"))
    assert traced("s1", "--seq", seq, "--full").count("text-delta") == len("I will ask.")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name what to trace"),
        (["--seq", "1", "--turn", "1"], "--seq goes with neither"),
        (["--seq", "999"], "has no event 999: its events are 0 to"),
        (["--call", "c11"], "has no tool call 'c11': did you mean c1?"),
        (["--call", "c1", "--turn", "2"], "turn 2 of s1 has no tool call 'c1'"),
        (["--turn", "9"], "has no turn 9"),
    ],
)
def test_what_can_not_be_traced_is_told(lake: Path, capsys: Capture, words: list[str], told: str) -> None:
    assert main(["trace", "s1", *words, "--lake", str(lake)]) == 2
    assert told in capsys.readouterr().err
