"""Cases from public reports: each through a real build, raw and compressed, to the numbers expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakes import rows
from logs import frame
from turnlake.api import connect
from turnlake.cli import main

Row = dict[str, Any]
Build = Callable[[str], tuple[Row, Callable[[str], list[Row]], Row]]


def packed(raw: bytes) -> bytes:
    """A frame a line; of a torn last line a torn frame."""
    *lines, rest = raw.split(b"\n")
    return b"".join(frame(line + b"\n") for line in lines) + (frame(rest * 9)[:-5] if rest else b"")


def copied(folder: Path, root: Path, container: str) -> None:
    """The logs of a case below a sessions root, stored as they are or compressed."""
    for log in folder.rglob("*.jsonl"):
        place = root / "--p--" / (log.parent.name if log.parent != folder else "s1")
        place.mkdir(parents=True, exist_ok=True)
        name = log.name if container == "raw" else f"{log.name}.zstd"
        (place / name).write_bytes(log.read_bytes() if container == "raw" else packed(log.read_bytes()))


@pytest.fixture(params=["raw", "zstd"])
def build(request: pytest.FixtureRequest, cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Build:
    """Builds a case: what it expects, queries of the lake, and the summary."""

    def run(name: str) -> tuple[Row, Callable[[str], list[Row]], Row]:
        root, lake = tmp_path / "root", tmp_path / "lake"
        copied(cases / name, root, request.param)
        assert main(["build", str(root), "--lake", str(lake), "--workers", "1", "--json", "-q"]) == 0
        db = connect(lake)
        request.addfinalizer(db.close)
        expected = json.loads((cases / name / "expected.json").read_text())
        return expected, lambda query: rows(db, query), json.loads(capsys.readouterr().out)

    return run


TOTALS = """
select sum(attempt_count)::bigint as model_calls, sum(input_tokens)::bigint as input_tokens,
    sum(output_tokens)::bigint as output_tokens, sum(total_tokens)::bigint as total_tokens
from marts.sessions
"""


def test_a_fork_and_a_subagent(build: Build) -> None:
    expected, query, summary = build("S02")
    [totals] = query(TOTALS)
    assert totals == {name: expected[name] for name in totals}
    assert summary["sessions"]["total_tokens"] == expected["total_tokens"]
    sessions = {row["session_id"]: row for row in query("from marts.sessions")}
    for name, numbers in expected["by_session"].items():
        assert sessions[name]["input_tokens"] == numbers["input"]
        assert sessions[name]["output_tokens"] == numbers["output"]
        assert sessions[name]["inherited_event_count"] == numbers.get("inherited_events", 0)
    assert (sessions["k1"]["origin"], sessions["k1"]["parent_session_id"]) == ("subagent", "p1")
    [with_subagents] = query(
        "select sum(input_tokens)::bigint as input, sum(output_tokens)::bigint as output "
        "from marts.sessions where session_id = 'p1' or (parent_session_id = 'p1' and origin = 'subagent')"
    )
    assert with_subagents == expected["rollup_p1_with_subagents"]
    inherited = query("select count(*) as n from raw.events where session_id = 'c1' and is_inherited")
    assert inherited == [{"n": expected["by_session"]["c1"]["inherited_events"]}]


def test_two_generations_of_one_session(build: Build) -> None:
    expected, query, summary = build("S06")
    sessions = query("from marts.sessions")
    assert len(sessions) == summary["sessions"]["session_count"] == expected["sessions"]
    assert [sessions[0][name] for name in ("input_tokens", "output_tokens")] == [
        expected["input_tokens"],
        expected["output_tokens"],
    ]
    assert sessions[0]["turn_count"] == expected["turns"]
    names = query(
        "select rtrim(replace(file_name, '.zstd', '')) as name, superseded_by is null as is_used from raw.logs"
    )
    assert [row["name"] for row in names if row["is_used"]] == [expected["file_used"]]
    assert [row["name"] for row in names if not row["is_used"]] == expected["superseded_files"]


def test_a_broken_line_and_a_torn_one(build: Build) -> None:
    expected, query, summary = build("S07")
    [session] = query("from marts.sessions")
    assert (session["event_count"], session["turn_count"]) == (expected["events"], expected["turns"])
    assert (session["input_tokens"], session["output_tokens"]) == (expected["input_tokens"], expected["output_tokens"])
    dangling = query("from marts.turns where is_dangling")
    assert len(dangling) == summary["turns_by_state"]["dangling"] == expected["dangling_turns"]
    [log] = query("from raw.logs")
    assert log["is_torn"] is expected["torn_tail"]
    assert log["verdict"] == "removable_tail"
    broken = query("select line, excerpt, byte_offset from raw.findings where code = 'unread_line' order by line")
    assert [{"line": row["line"]} for row in broken] == expected["malformed_lines"]
    assert all(row["excerpt"].startswith('{"type":"todo/write"') and row["byte_offset"] > 0 for row in broken)


def test_projects_by_their_paths(build: Build) -> None:
    """The summary holds no text of messages."""
    expected, query, summary = build("S13")
    sums = query("select project, sum(input_tokens)::bigint as input from marts.sessions group by project")
    assert {row["project"]: {"input": row["input"]} for row in sums} == expected["projects"]
    [cwds] = query("select count(distinct cwd) as n from marts.sessions")
    assert cwds["n"] == len(query("from marts.sessions"))

    for text, is_contained in expected["metrics_output_contains"].items():
        assert (text in json.dumps(summary)) is is_contained
