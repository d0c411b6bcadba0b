"""Sums of the attempts against what the harness's own meter says of the official logs."""

from __future__ import annotations

from lakes import rows
from official import Official

# Two samples of one step without `llm/retry-started` between them: the meter keeps only the later.
UNDERCOUNTED = {"edit-source-empty-assistant", "edit4-attempt-usage-no-retry-marker"}
BUCKETS = {
    "uncachedInputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}


def test_attempts_sum_to_what_the_meter_shows(official: Official) -> None:
    sums = ", ".join(f"coalesce(sum({column}), 0)::bigint as {column}" for column in BUCKETS.values())
    query = f"select session_id, {sums} from intermediate.attempts where kind = 'model' group by all"
    found = {row["session_id"]: [row[column] for column in BUCKETS.values()] for row in rows(official.db, query)}
    different = set()
    for name, answer in official.accepted.items():
        usage = answer.get("ownUsage") or answer["usage"]
        if found.get(name, [0] * len(BUCKETS)) != [usage[bucket] for bucket in BUCKETS]:
            different.add(name)
    assert different == UNDERCOUNTED


def test_turns_and_steps_are_those_the_harness_counts(official: Official) -> None:
    sessions = {
        row["session_id"]: row for row in rows(official.db, "from marts.sessions where inherited_event_count = 0")
    }
    for name, answer in official.accepted.items():
        if name in sessions:
            counts = (sessions[name]["turn_count"], sessions[name]["step_count"])
            assert counts == (answer["counts"]["turnStarts"], answer["counts"]["stepStarts"]), name
