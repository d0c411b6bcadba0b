"""The sample generator writes what it promises, and the committed sample is what its script writes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from turnlake.commands import sample as command
from turnlake.errors import UsageError
from turnlake.sample.layout import encoded_id, project_folder
from turnlake.sample.shapes import with_ranges
from turnlake.sample.write import write_sample

REPOSITORY = Path(__file__).parents[1]
SAMPLE = REPOSITORY / "data" / "sample"
VERSIONS = range(5)
SURFACE = {"user/message", "assistant/message", "tool/result", "system/message"}
PACKED = {"text-chunks": "texts", "reasoning-chunks": "texts", "tool-call-chunks": "args"}
# The sizes of a subagent's log and of a fork hang on its parent, so the sample has to hold some of each.
SESSIONS = 24


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def frames(data: bytes) -> list[bytes]:
    """The decoded frames of a zstd log; a torn last one is left out."""
    decoded = []
    while data:
        reader = zstandard.ZstdDecompressor().decompressobj()
        text = reader.decompress(data)
        if not reader.eof:
            break
        decoded.append(text)
        data = reader.unused_data
    return decoded


def lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = b"".join(frames(data)) if path.suffix == ".zstd" else data
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text[:-1].split(b"\n")]


def logical(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Events in order; a packed row stands for all of its chunks."""
    for record in records:
        if record["type"] not in PACKED:
            yield record
            continue
        payload = record["data"][PACKED[record["type"]]]
        assert len(record["data"]["dt"]) == len(payload) - 1
        for number in range(len(payload)):
            yield {"type": "assistant/chunk", "seq": record["seq0"] + number, "data": record["data"]}


def chunk_count(events: list[dict[str, Any]]) -> int:
    count = sum(event["type"] == "assistant/chunk" for event in events)
    for event in events:
        for record in event["data"].get("stream", []):
            count += len(record.get("texts") or record.get("args") or [record])
    return count


def check_brackets(events: list[dict[str, Any]]) -> None:
    """Turns and steps count 1, 2, 3 and lie inside one another; only the last turn may stay open."""
    turn = step = 0
    open_turn = open_step = False
    for event in events:
        kind, data = event["type"], event["data"]
        if kind == "turn/start":
            assert not open_turn and data["turn"] == turn + 1
            turn, step, open_turn = turn + 1, 0, True
        elif kind == "step/start":
            assert open_turn and not open_step and data == {"turn": turn, "step": step + 1}
            step, open_step = step + 1, True
        elif kind == "step/end":
            assert open_step and data == {"turn": turn, "step": step}
            open_step = False
        elif kind == "turn/end":
            assert open_turn and not open_step and data["turn"] == turn
            open_turn = False
        elif kind.startswith(("assistant/", "tool/")):
            assert open_step and (data["turn"], data["step"]) == (turn, step)


def check_calls(events: list[dict[str, Any]]) -> None:
    """Each call was asked for, each result belongs to a call that waits for one, and steps end without open calls."""
    asked: dict[str, dict[str, Any]] = {}
    waiting: dict[str, int] = {}
    for event in events:
        kind, data = event["type"], event["data"]
        if kind == "assistant/message":
            calls = [block for block in data["message"]["content"] if block["type"] == "tool-call"]
            asked = {block["id"]: block for block in calls}
            assert all(json.loads(block["arguments"]) for block in calls)
        elif kind == "tool/call":
            block = asked[data["callId"]]
            assert (data["name"], data["arguments"]) == (block["name"], block["arguments"])
            waiting[data["callId"]] = event["seq"]
        elif kind == "tool/result":
            assert event["sourceEventSeqs"] == [waiting.pop(data["message"]["source"]["callId"])]
        elif kind == "step/end":
            assert not waiting


def check_surface(events: list[dict[str, Any]]) -> None:
    """Replacements name nodes of the surface and cite what they hide; the others append."""
    nodes: list[int] = []
    for event in events:
        assert ("surfaceOp" in event) == (event["type"] in SURFACE)
        op = event.get("surfaceOp")
        if op == "append":
            nodes.append(event["seq"])
        elif op:
            _, first, last = op.values()
            hidden = nodes[nodes.index(first) : nodes.index(last) + 1]
            assert hidden and set(hidden) <= set(event["sourceEventSeqs"])
            nodes[nodes.index(first) : nodes.index(last) + 1] = [event["seq"]]


def check_usage(events: list[dict[str, Any]]) -> None:
    for event in events:
        usage = event["data"].get("usage")
        if usage:
            assert usage.get("reasoningTokens", 0) <= usage["outputTokens"]
            parts = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
            assert usage.get("totalTokens", 0) in {0, sum(usage.get(part, 0) for part in parts)}


@pytest.fixture(scope="module", params=VERSIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    root = tmp_path_factory.mktemp(f"v{request.param}")
    return root, write_sample(root, sessions=SESSIONS, megabytes=2, version=request.param, seed=5)


def test_size_and_count_are_met(written: tuple[Path, Any]) -> None:
    root, summary = written
    paths = [path for path in root.rglob("*") if path.is_file()]
    assert len(paths) == summary.sessions == SESSIONS
    assert summary.stored_bytes == sum(path.stat().st_size for path in paths)
    assert summary.decoded_bytes == sum(len(b"".join(frames(path.read_bytes()))) for path in paths)
    assert summary.decoded_bytes == pytest.approx(2e6, rel=0.05)


def test_every_log_is_valid(written: tuple[Path, Any]) -> None:
    root, summary = written
    totals: Counter[str] = Counter()
    message_ids: Counter[tuple[str, str]] = Counter()
    for path in root.rglob("*.zstd"):
        header, *records = lines(path)
        events = list(logical(records))
        assert [event["seq"] for event in events] == list(range(len(events)))
        check_brackets(events)
        check_calls(events)
        check_surface(events)
        check_usage(events)
        message_ids.update(
            (header["id"], (event["data"].get("message") or event["data"])["id"])
            for event in events
            if event["type"] in SURFACE
        )
        totals.update(lines=len(records) + 1, events=len(events), chunks=chunk_count(events))
    assert totals == {"lines": summary.lines, "events": summary.events, "chunks": summary.chunks}
    assert max(message_ids.values()) == 1


def test_folders_and_headers_agree(written: tuple[Path, Any]) -> None:
    root, _ = written
    for path in root.rglob("*.zstd"):
        header = lines(path)[0]
        version = header["version"]
        assert path.name == ("session.jsonl.zstd" if version == 0 else f"session.v{version}.jsonl.zstd")
        assert path.parent.name == encoded_id(header["id"])
        assert path.parent.parent.name == project_folder(header["cwd"])
        assert frames(path.read_bytes())[0].count(b"\n") == 1


def test_forks_and_subagents_name_their_parents(written: tuple[Path, Any]) -> None:
    root, _ = written
    logs = {records[0]["id"]: records for records in map(lines, root.rglob("*.zstd"))}
    kin = [records for records in logs.values() if "parentSession" in records[0]]
    assert {records[0].get("origin") for records in kin} == {None, "subagent"}
    for records in kin:
        parent = logs[records[0]["parentSession"]]
        if records[0].get("origin"):
            assert records[1]["type"] == "subagent/descriptor"
            continue
        seed = next(number for number, record in enumerate(records) if record["type"] == "session/end-seed")
        assert records[1:seed] == parent[1:seed]
        assert records[0].get("seedLength", records[seed]["seq"]) == records[seed]["seq"]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_sample(tmp_path / name, sessions=3, megabytes=0.2, version=4, seed=seed)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a") != files(tmp_path / "c")


def test_raw_logs_hold_the_same_lines(tmp_path: Path) -> None:
    write_sample(tmp_path / "raw", sessions=2, megabytes=0.1, version=0, seed=1, raw=True)
    write_sample(tmp_path / "zstd", sessions=2, megabytes=0.1, version=0, seed=1)
    raw = files(tmp_path / "raw")
    assert raw == {
        name.removesuffix(".zstd"): b"".join(frames(data)) for name, data in files(tmp_path / "zstd").items()
    }


def test_all_ends_of_turns_occur(tmp_path: Path) -> None:
    write_sample(tmp_path / "s", sessions=40, megabytes=8, version=2, seed=1)
    kinds: Counter[str] = Counter()
    for path in (tmp_path / "s").rglob("*.zstd"):
        for record in lines(path)[1:]:
            kinds[record["type"]] += 1
            if record["type"] == "turn/end":
                kinds[record["data"]["reason"]["kind"]] += 1
            if record["type"] == "assistant/message" and not record["data"]["message"]["content"]:
                kinds["empty message"] += 1
    for kind in ("completed", "error", "max-tokens", "aborted", "blocked", "empty message"):
        assert kinds[kind], kind
    for kind in ("llm/retry-started", "approval/decided", "compaction/summary", "todo/write", "assistant/attempt"):
        assert kinds[kind], kind
    assert kinds["turn/start"] > kinds["turn/end"]


@pytest.mark.parametrize(
    "options",
    [
        {"sessions": 1, "megabytes": 1.0, "version": 5},
        {"sessions": 0, "megabytes": 1.0, "version": 4},
        {"sessions": 1000, "megabytes": 1.0, "version": 4},
    ],
)
def test_what_cannot_be_met_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        write_sample(tmp_path / "s", **options, seed=1)
    assert not (tmp_path / "s").exists()


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError):
        write_sample(tmp_path, sessions=1, megabytes=0.1, version=4, seed=1)
    assert files(tmp_path) == {"mine.txt": b"keep"}


def test_the_command_prints_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    command.add_arguments(parser)
    options = ["--sessions", "2", "--mb", "0.1", "--json"]
    assert command.run(parser.parse_args([str(tmp_path / "s"), *options])) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["sessions"] == 2
    assert set(summary) == {"sessions", "lines", "events", "chunks", "decoded_bytes", "stored_bytes"}


def test_ranges_stand_for_runs_of_three_and_more() -> None:
    assert with_ranges([4, 7, 8, 9, 12, 13]) == [4, [7, 9], 12, 13]
    assert with_ranges([9, 7, 8, 10]) == [9, 7, 8, 10]


def test_folder_names_follow_the_harness() -> None:
    assert project_folder("/home/ana/my app") == "--home-ana-my~0020app--"
    assert project_folder("C:\\Users\\Bo") == "--C-Users-Bo--"
    assert project_folder("/") == "--root--"
    assert project_folder(None) == "_no-cwd"
    assert encoded_id("a~\U0001f980") == "a~007E~D83E~DD80"
    assert encoded_id("..") == "~002E~002E"


def test_the_script_gives_the_committed_sample(tmp_path: Path) -> None:
    script = [sys.executable, "-B", str(SAMPLE / "make_sample.py"), str(tmp_path)]
    path = os.pathsep.join([str(REPOSITORY / "pipeline"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(script, check=True, env={**os.environ, "PYTHONPATH": path})
    made, committed = files(tmp_path), files(SAMPLE)
    logs = {name: data for name, data in committed.items() if ".jsonl" in name}
    assert made.keys() == logs.keys()
    for name, data in made.items():
        # Another version of zstd may compress to other bytes.
        assert (frames(data) == frames(logs[name])) if name.endswith(".zstd") else (data == logs[name])


def test_the_committed_sample_is_small() -> None:
    assert sum(len(data) for name, data in files(SAMPLE).items() if "__pycache__" not in name) < 300_000
