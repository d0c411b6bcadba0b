"""The marts against the answers of the official code, over its corpus of logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import duckdb

from agreement import differences
from counter import Session, count
from lakes import rows
from official import Official

BUCKETS = {
    "uncachedInputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}
NO_USAGE = dict.fromkeys(BUCKETS.values(), 0)
# The meter up to 0.1.1 keeps the last sample of a step, that since 0.1.2 the last of a step between two retries.
OLD_METER_READERS = {"v0"}
# Two samples of one step without `llm/retry-started` between them: the harness counts the later only, we both.
UNDERCOUNTED = {"edit-source-empty-assistant", "edit4-attempt-usage-no-retry-marker"}


def answers(official: Official, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the readers that accept the log say of it, by the reader's short name."""
    answer = official.expected[name]
    readers = {answer["reader"].split()[0]: answer} | answer.get("readers", {})
    return ((reader, said) for reader, said in readers.items() if "rejected" not in said)


def own_answers(official: Official) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the reader of each log's own format says; others migrate it first, which adds and drops events."""
    for name, answer in official.expected.items():
        reader, said = next(answers(official, name), ("", {}))
        if said and answer["reader"].split()[0] == reader:
            yield name, said


def second_count(official: Official) -> dict[str, Session]:
    """The second count of the logs that a product reads."""
    return {
        name: count(official.file(name).read_bytes(), name) for name in official.cases if any(answers(official, name))
    }


def sums(db: duckdb.DuckDBPyConnection, condition: str) -> dict[str, dict[str, int]]:
    """The tokens of each session's calls of models under a condition."""
    columns = ", ".join(f"coalesce(sum({column}), 0)::bigint as {column}" for column in BUCKETS.values())
    query = f"select session_id, {columns} from marts.attempts where kind = 'model' and {condition} group by all"
    return {row.pop("session_id"): row for row in rows(db, query)}


def test_each_meter_is_reproduced_through_its_flag(official: Official) -> None:
    old, new = sums(official.db, "is_counted_by_old_meter"), sums(official.db, "is_counted_by_new_meter")
    compared: dict[str, int] = defaultdict(int)
    for name in official.cases:
        for reader, said in answers(official, name):
            usage = said.get("ownUsage") or said["usage"]
            meter = old if reader in OLD_METER_READERS else new
            shown = {BUCKETS[bucket]: tokens for bucket, tokens in usage.items()}
            assert meter.get(name, NO_USAGE) == shown, f"{name} by reader {reader}"
            compared[reader] += 1
    assert all(compared[reader] > 20 for reader in ("v0", "v2", "v3", "v4")), compared


def test_ours_is_the_new_meter_but_where_that_drops_a_call(official: Official) -> None:
    ours, new = sums(official.db, "true"), sums(official.db, "is_counted_by_new_meter")
    read = {name for name in official.cases if any(answers(official, name))}
    assert {name for name in read if ours.get(name, NO_USAGE) != new.get(name, NO_USAGE)} == UNDERCOUNTED


def test_turns_steps_and_tool_calls_are_as_many(official: Official) -> None:
    sessions = {row["session_id"]: row for row in rows(official.db, "from marts.sessions")}
    calls = {row["session_id"]: row for row in rows(official.db, CALLS)}
    compared = 0
    for name, said in own_answers(official):
        session, counts = sessions[name], said["counts"]
        if session["verdict"] == "clean" and session["inherited_event_count"] == 0:
            told = (session["turn_count"], session["step_count"], session["event_count"])
            assert told == (counts["turnStarts"], counts["stepStarts"], said["eventCount"]), name
            made = calls.get(name, {"started": 0, "answered": 0})
            assert made["started"] == counts["toolCalls"], name
            compared += 1
    assert compared > 250


CALLS = """
select session_id, count(call_seq) as started, count(result_seq) as answered
from marts.tool_calls where not is_nested group by session_id
"""


def test_the_second_count_agrees(official: Official) -> None:
    sessions = second_count(official)
    told = differences(official.db, sessions.values(), tables=("attempts", "turns", "steps", "tool_calls"))
    # Logs that every product refuses are in the marts; whether they are read at all is not a matter of counting.
    assert [line for line in told if any(f"('{name}'" in line for name in sessions)] == []


def test_the_surface_is_the_official_one(official: Official) -> None:
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows(
        official.db,
        "select session_id, seq from marts.transcript where shadowed_by_seq is null order by order_key, seq",
    ):
        found[row["session_id"]].append(row["seq"])
    for name, said in own_answers(official):
        assert found[name] == said["surface"]["nodes"], name
