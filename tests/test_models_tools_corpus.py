"""Tool calls against what the harness's own code counts in the official logs."""

from __future__ import annotations

from lakes import rows
from official import Official

CALLS = """
select session_id, count_if(message_line is not null) as toolCallBlocks,
    count_if(call_seq is not null) as toolCalls, count_if(result_seq is not null) as toolResults
from intermediate.tool_calls where not is_nested group by all
"""


def test_calls_are_those_of_the_official_logs(official: Official) -> None:
    found = {row["session_id"]: row for row in rows(official.db, CALLS)}
    sessions = rows(official.db, "from marts.sessions where inherited_event_count = 0")
    counted = {row["session_id"]: row["tool_call_count"] for row in sessions}
    for name, answer in official.accepted.items():
        if name in counted:
            told = found.get(name, dict.fromkeys(("toolCallBlocks", "toolCalls", "toolResults"), 0))
            for kind in ("toolCallBlocks", "toolCalls"):
                assert told[kind] == answer["counts"][kind], (name, kind)
            assert told["toolResults"] <= answer["counts"]["toolResults"], name
            assert counted[name] == answer["counts"]["toolCallBlocks"], name


def test_every_outcome_there_is_known(official: Official) -> None:
    found = {row["outcome"] for row in rows(official.db, "select distinct outcome from marts.tool_calls")}
    assert found >= {"ok", "error", "denied", "aborted", "not_started", "unknown", "open"}
