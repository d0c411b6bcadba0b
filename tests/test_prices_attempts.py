"""marts.attempts: meters, window, times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakes import START_MS, Log, built, rows


def attempts(folder: Path, *logs: Log) -> list[dict[str, Any]]:
    return rows(built(folder, *logs), "from marts.attempts order by session_id, first_line")


def begun(**facts: Any) -> Log:
    log = Log(**facts)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    return log


def meters(found: list[dict[str, Any]]) -> list[tuple[bool, bool]]:
    return [(row["is_counted_by_old_meter"], row["is_counted_by_new_meter"]) for row in found]


def test_the_old_meter_forgets_a_retried_call_and_the_new_one_keeps_it(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=10, output_tokens=4)
    log.event("llm/retry", 1, 1)
    log.event("llm/retry-started", 1, 1)
    log.message(input_tokens=100, output_tokens=20, usage_place="message")
    assert meters(attempts(tmp_path, log)) == [(False, True), (True, True)]


def test_both_meters_forget_a_call_that_no_started_retry_separates(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=9, output_tokens=0)
    log.chunk("finish", finish_kind="error", error_code="CONTEXT_WINDOW_EXCEEDED")
    log.event("compaction/start", 1, related_id="k")
    log.event(
        "compaction/summary", related_id="k", provider="p", model="m", input_tokens=5, output_tokens=4,
        usage_place="compaction",
    )  # fmt: skip
    log.chunk("usage", input_tokens=3, output_tokens=1)
    log.message(input_tokens=3, output_tokens=1, usage_place="message")
    log.event("step/end", 1, 1)
    log.event("step/start", 1, 2)
    log.message(1, 2)
    found = attempts(tmp_path, log)
    assert [row["kind"] for row in found] == ["model", "compaction", "model", "model"]
    assert meters(found) == [(False, False), (False, False), (True, True), (False, False)], "no usage, no sample"


def test_the_window_is_that_of_the_last_context(tmp_path: Path) -> None:
    log = Log()
    log.event("request/context", provider="p", model="m", context_window=1000)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    log.message(
        input_tokens=100, output_tokens=900, cache_read_tokens=300, cache_write_tokens=50, usage_place="message"
    )
    log.event("request/context", provider="p", model="m")
    log.event("step/start", 1, 2)
    log.message(1, 2, input_tokens=100, output_tokens=900, usage_place="message")
    log.event("request/context", provider="p", model="m", context_window=500)
    log.event("step/start", 1, 3)
    log.message(1, 3)
    full, unadvertised, unknown = attempts(tmp_path, log)
    assert (full["context_window"], full["context_used_ratio"]) == (1000, 0.45)
    assert (unadvertised["context_window"], unadvertised["context_used_ratio"]) == (None, None)
    assert (unknown["context_window"], unknown["context_used_ratio"]) == (500, None)


def test_times_and_speed(tmp_path: Path) -> None:
    log = begun()
    log.chunk("text-delta", texts=["a", "b", "c"], dt=[10, 20], time_ms=START_MS + 3500)
    log.message(input_tokens=100, output_tokens=20, usage_place="message", time_ms=START_MS + 5500)
    (row,) = attempts(tmp_path, log)
    assert (row["ttft_ms"], row["decode_ms"], row["duration_ms"]) == (500, 2000, 2500)
    assert (row["output_tokens_per_second"], row["is_clock_skewed"]) == (10.0, False)
    assert row["billed_at"] == row["settled_at"]


def test_a_clock_that_was_set_back_is_kept_and_flagged(tmp_path: Path) -> None:
    log = begun()
    log.chunk("text-delta", texts=["a"], time_ms=START_MS + 9000)
    log.message(input_tokens=100, output_tokens=20, usage_place="message", time_ms=START_MS + 5000)
    (row,) = attempts(tmp_path, log)
    assert (row["ttft_ms"], row["decode_ms"], row["duration_ms"]) == (6000, -4000, 2000)
    assert (row["output_tokens_per_second"], row["is_clock_skewed"]) == (None, True)


def test_a_call_without_usage_is_billed_when_it_ended_and_an_open_one_when_it_last_spoke(tmp_path: Path) -> None:
    over, open_, silent = begun(session_id="a"), begun(session_id="b"), begun(session_id="c")
    for log in (over, open_):
        log.chunk("text-delta", texts=["a", "b"], dt=[10])
    over.event("step/end", 1, 1)
    ended, speaking, started = attempts(tmp_path, over, open_, silent)
    assert ended["billed_at"] == ended["settled_at"]
    assert (speaking["settled_at"], speaking["billed_at"]) == (None, speaking["last_token_at"])
    assert (started["last_token_at"], started["billed_at"]) == (None, started["started_at"])
    assert [row["price_source"] for row in (ended, speaking, started)] == [None, None, None]


def test_public_types(tmp_path: Path) -> None:
    log = Log()
    log.turn(1)
    types = dict(
        built(tmp_path, log).execute("select column_name, column_type from (describe marts.attempts)").fetchall()
    )
    assert {types[name] for name in types if name.endswith("_at")} == {"TIMESTAMP WITH TIME ZONE"}
    assert {types[name] for name in types if name.endswith(("_ms", "_tokens")) and name[:3] != "is_"} == {"BIGINT"}
    assert types["cost"] == "DECIMAL(38,12)"
    assert "HUGEINT" not in types.values()
