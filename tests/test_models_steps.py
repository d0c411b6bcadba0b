"""Steps: their bounds, tools, calls of the model, tokens and cost."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from lakes import START_MS, Log, Row, built, rows

PRICED = {"provider": "deepseek-official", "model": "deepseek-v4-pro", "usage_place": "message"}


def steps(folder: Path, *logs: Log) -> list[Row]:
    return rows(built(folder, *logs), "from marts.steps order by session_id, turn, step")


def worked(log: Log) -> None:
    """A turn of two steps: a retried call that asks for two tools, and an answer."""
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    log.event("llm/retry", 1, 1, error_code="SERVER")
    log.event("llm/retry-started", 1, 1)
    log.message(tool_call_ids=["a", "b"], tool_call_names=["bash"] * 2, input_tokens=100, output_tokens=10, **PRICED)
    for call_id in "ab":
        log.event("tool/call", 1, 1, call_id=call_id, tool_name="bash")
    for call_id in "ab":
        log.event("tool/result", 1, 1, call_id=call_id, surface_op="append", is_error=False)
    log.event("step/end", 1, 1)
    log.event("step/start", 1, 2)
    log.message(1, 2, input_tokens=200, output_tokens=20, cache_read_tokens=1000, **PRICED)
    log.event("step/end", 1, 2)
    log.event("turn/end", 1, reason_kind="completed")


def test_a_step_is_its_calls_and_its_tools(tmp_path: Path) -> None:
    log = Log()
    worked(log)
    first, second = steps(tmp_path, log)
    assert (first["start_seq"], first["end_seq"], first["is_open"]) == (1, 9, False)
    assert (first["started_at"].timestamp() * 1000, first["duration_ms"]) == (START_MS + 3000, 8000)
    assert (first["attempt_count"], first["retry_count"], first["model_ms"]) == (2, 1, 1000 + 1000)
    assert (first["tool_call_count"], first["max_parallel_tool_calls"], first["tool_wall_ms"]) == (2, 2, 3000)
    assert (second["attempt_count"], second["tool_call_count"]) == (1, 0)
    assert second["tool_wall_ms"] == second["max_parallel_tool_calls"] == second["retry_count"] == 0
    assert (second["duration_ms"], second["model_ms"]) == (2000, 1000)


def test_tokens_and_cost_are_those_of_the_attempts(tmp_path: Path) -> None:
    log = Log()
    worked(log)
    first, second = steps(tmp_path, log)
    assert (first["input_tokens"], first["output_tokens"], first["total_tokens"]) == (100, 10, 110)
    assert (first["unknown_usage_attempt_count"], first["unpriced_attempt_count"]) == (1, 0)
    assert first["cost"] == Decimal("0.0000858"), "off-peak, by the built-in card"
    assert (second["cache_read_tokens"], second["total_tokens"]) == (1000, 1220)
    assert second["cost"] == Decimal("0.0001936")
    assert (second["unknown_usage_attempt_count"], second["unpriced_attempt_count"]) == (0, 0)


def test_a_model_without_a_price_costs_nobody_knows_what(tmp_path: Path) -> None:
    log = Log()
    log.turn(1)
    (step,) = steps(tmp_path, log)
    assert (step["cost"], step["unpriced_attempt_count"], step["unknown_usage_attempt_count"]) == (None, 1, 0)


def test_nothing_called_is_nothing_and_nothing_known_is_unknown(tmp_path: Path) -> None:
    closed, dangling = Log("closed"), Log("dangling")
    for log in (closed, dangling):
        log.event("turn/start", 1)
    closed.event("step/end", 1, 1)
    dangling.event("step/start", 1, 1)
    without, unanswered = steps(tmp_path, closed, dangling)
    assert (without["attempt_count"], without["total_tokens"], without["cost"], without["model_ms"]) == (0, 0, 0, 0)
    assert (without["started_at"], without["duration_ms"]) == (None, None)
    assert (unanswered["attempt_count"], unanswered["unknown_usage_attempt_count"]) == (1, 1)
    assert unanswered["total_tokens"] is unanswered["cost"] is unanswered["model_ms"] is None
    assert (unanswered["is_open"], unanswered["ended_at"], unanswered["duration_ms"]) == (True, None, None)


def test_open_calls_tell_no_time(tmp_path: Path) -> None:
    log = Log()
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    log.message(tool_call_ids=["a", "b"], tool_call_names=["bash"] * 2)
    log.event("tool/call", 1, 1, call_id="a", tool_name="bash")
    (step,) = steps(tmp_path, log)
    assert (step["tool_call_count"], step["max_parallel_tool_calls"], step["tool_wall_ms"]) == (2, 1, None)


def test_a_compaction_inside_a_step_is_a_call_of_it(tmp_path: Path) -> None:
    log = Log()
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    log.event("compaction/start", 1, related_id="k")
    log.event(
        "compaction/summary",
        related_id="k",
        input_tokens=50,
        output_tokens=5,
        **(PRICED | {"usage_place": "compaction"}),
    )
    log.event("compaction/end", 1, related_id="k")
    log.message(input_tokens=10, output_tokens=1, **PRICED)
    (step,) = steps(tmp_path, log)
    assert (step["attempt_count"], step["input_tokens"]) == (2, 60)


def test_steps_of_the_parent_are_not_counted_again(tmp_path: Path) -> None:
    log = Log(inherited_event_count=2)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    log.event("step/end", 1, 1)
    log.event("turn/end", 1, reason_kind="forked")
    log.turn(2)
    assert [(step["turn"], step["step"]) for step in steps(tmp_path, log)] == [(2, 1)]
