from __future__ import annotations

from pathlib import Path
from typing import Any

from lakes import START_MS, Log, built, rows


def attempts(folder: Path, *logs: Log) -> list[dict[str, Any]]:
    return rows(built(folder, *logs), "from intermediate.attempts order by session_id, branch, first_line")


def begun(**facts: Any) -> Log:
    log = Log(**facts)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    return log


def test_sample_and_message_are_one_call(tmp_path: Path) -> None:
    log = begun()
    log.chunk("text-delta", texts=["a", "b", "c"], dt=[10, 20])
    log.chunk("usage", input_tokens=1, output_tokens=1)
    log.chunk("finish", finish_kind="stop")
    log.message(input_tokens=100, output_tokens=20, usage_place="message")
    (attempt,) = attempts(tmp_path, log)
    assert (attempt["attempt_id"], attempt["outcome"], attempt["usage_source"]) == ("s1/1.1.1", "message", "message")
    assert (attempt["input_tokens"], attempt["total_tokens"], attempt["finish_kind"]) == (100, 120, "stop")
    assert attempt["start_time_ms"] == START_MS + 3000
    assert (attempt["first_token_ms"], attempt["last_token_ms"]) == (START_MS + 4000, START_MS + 4030)
    assert attempt["settled_time_ms"] == attempt["billed_time_ms"] == START_MS + 7000
    assert attempt["message_seq"] == 7


def test_a_message_without_usage_is_billed_by_the_last_sample(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=1, output_tokens=1)
    log.chunk("usage", input_tokens=5, output_tokens=2)
    log.message()
    (attempt,) = attempts(tmp_path, log)
    assert (attempt["input_tokens"], attempt["usage_source"]) == (5, "stream")
    assert attempt["billed_time_ms"] == START_MS + 5000


def test_a_retry_is_a_second_call_of_the_step(tmp_path: Path) -> None:
    log = begun()
    log.event("request/context", provider="p", model="m")
    log.chunk("text-delta", texts=["a"])
    log.event("llm/retry", 1, 1, error_code="SERVER")
    log.event("llm/retry-started", 1, 1)
    log.chunk("usage", input_tokens=5, output_tokens=2)
    log.message(input_tokens=5, output_tokens=2, usage_place="message")
    first, second = attempts(tmp_path, log)
    assert (first["outcome"], first["usage_source"], first["total_tokens"]) == ("failed", "none", None)
    assert (first["provider"], first["model"]) == ("p", "m")
    assert first["settled_time_ms"] == START_MS + 6000, "the retry proves the end"
    assert (second["attempt"], second["outcome"], second["start_time_ms"]) == (2, "message", START_MS + 7000)


def test_a_retry_without_any_row_is_a_failed_call(tmp_path: Path) -> None:
    log = begun()
    log.event("llm/retry", 1, 1, error_code="UNAVAILABLE", provider="p")
    log.event("llm/retry-started", 1, 1)
    log.message(input_tokens=5, output_tokens=2, usage_place="message")
    first, second = attempts(tmp_path, log)
    assert (first["outcome"], first["usage_source"], first["error_code"]) == ("failed", "none", "UNAVAILABLE")
    assert (first["start_time_ms"], first["settled_time_ms"]) == (START_MS + 3000, START_MS + 4000)
    assert (first["provider"], first["model"], second["attempt_id"]) == ("p", None, "s1/1.1.2")


def test_overflow_recovery_is_two_calls_without_a_retry_event(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=9, output_tokens=0)
    log.chunk("finish", finish_kind="error", error_code="CONTEXT_WINDOW_EXCEEDED")
    log.event("compaction/start", 1, related_id="k")
    log.event(
        "compaction/summary",
        related_id="k",
        provider="p",
        model="small",
        input_tokens=50,
        output_tokens=4,
        usage_place="compaction",
    )
    log.event("compaction/end", 1, related_id="k")
    log.chunk("usage", input_tokens=3, output_tokens=1)
    log.message(input_tokens=3, output_tokens=1, usage_place="message")
    failed, compaction, second = attempts(tmp_path, log)
    assert (failed["outcome"], failed["error_code"], failed["input_tokens"]) == ("failed", "CONTEXT_WINDOW_EXCEEDED", 9)
    assert failed["settled_time_ms"] == START_MS + 5000
    assert (compaction["attempt_id"], compaction["kind"], compaction["usage_source"]) == (
        "s1/compaction/1",
        "compaction",
        "compaction",
    )
    assert (compaction["turn"], compaction["step"], compaction["model"]) == (1, 1, "small")
    assert compaction["start_time_ms"] == START_MS + 6000
    assert (second["attempt_id"], second["input_tokens"]) == ("s1/1.1.2", 3)
    assert second["start_time_ms"] == START_MS + 7000, "the call settled last in the step, the compaction"


def test_a_compaction_outside_turns_belongs_to_none(tmp_path: Path) -> None:
    log = Log()
    log.turn(1)
    log.event("compaction/start", related_id="k")
    log.event("compaction/summary", related_id="k", provider="p", model="small")
    _, compaction = attempts(tmp_path, log)
    assert (compaction["turn"], compaction["step"], compaction["usage_source"]) == (None, None, "none")


def test_empty_sources_open_a_slot_of_their_own(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=9, output_tokens=1)
    log.message(source_ranges=[], input_tokens=3, output_tokens=1, usage_place="message")
    first, second = attempts(tmp_path, log)
    assert (first["outcome"], first["input_tokens"], second["outcome"], second["input_tokens"]) == (
        "failed",
        9,
        "message",
        3,
    )


def test_a_chunk_behind_a_finish_opens_a_slot_and_a_message_does_not(tmp_path: Path) -> None:
    log = begun()
    log.chunk("finish", finish_kind="error")
    log.chunk("usage", input_tokens=1, output_tokens=1)
    log.chunk("finish", finish_kind="stop")
    log.message()
    assert [row["outcome"] for row in attempts(tmp_path, log)] == ["failed", "message"]


def test_chunks_of_another_step_open_a_slot(tmp_path: Path) -> None:
    log = Log()
    log.chunk("usage", 1, 1, input_tokens=1, output_tokens=1)
    log.chunk("usage", 1, 2, input_tokens=2, output_tokens=1)
    first, second = attempts(tmp_path, log)
    assert (first["attempt_id"], first["outcome"]) == ("s1/1.1.1", "interrupted")
    assert (second["attempt_id"], second["outcome"], second["settled_time_ms"]) == ("s1/1.2.1", "open", None)


def test_embedded_streams_are_one_call_an_event(tmp_path: Path) -> None:
    log = begun(format_version=2)
    log.event(
        "assistant/attempt",
        1,
        1,
        finish_kind="error",
        error_code="RATE_LIMIT",
        input_tokens=10,
        output_tokens=4,
        usage_place="stream",
        first_token_ms=START_MS,
        stream='[{"type":"chunk","time":1,"chunk":{"type":"usage","usage":{"inputTokens":10,"outputTokens":4}}}]',
    )
    log.event("llm/retry", 1, 1)
    log.event("llm/retry-started", 1, 1)
    log.message(input_tokens=100, output_tokens=20, cache_read_tokens=30, cache_write_tokens=5, usage_place="message")
    failed, message = attempts(tmp_path, log)
    assert (failed["outcome"], failed["total_tokens"], failed["usage_source"]) == ("failed", 14, "stream")
    assert (failed["first_token_ms"], failed["billed_time_ms"]) == (START_MS, START_MS + 4000)
    assert message["total_tokens"] == 155


def test_a_request_without_answer_is_open_then_interrupted_or_failed(tmp_path: Path) -> None:
    live, killed, failed = begun(session_id="live"), begun(session_id="killed"), begun(session_id="failed")
    for log, reason in ((killed, "interrupted"), (failed, "error")):
        log.event("step/end", 1, 1)
        log.event("turn/end", 1, reason_kind=reason)
    outcomes = {
        row["session_id"]: (row["outcome"], row["settled_time_ms"]) for row in attempts(tmp_path, live, killed, failed)
    }
    assert outcomes == {
        "live": ("open", None),
        "killed": ("interrupted", START_MS + 4000),
        "failed": ("failed", START_MS + 4000),
    }


def test_a_started_retry_without_answer_is_a_call(tmp_path: Path) -> None:
    log = begun()
    log.event("assistant/attempt", 1, 1, finish_kind="error")
    log.event("llm/retry", 1, 1)
    log.event("llm/retry-started", 1, 1)
    assert [(row["attempt"], row["outcome"]) for row in attempts(tmp_path, log)] == [(1, "failed"), (2, "open")]


def test_a_retry_told_behind_the_end_of_its_step_adds_no_call(tmp_path: Path) -> None:
    log = begun()
    log.chunk("finish", finish_kind="error")
    log.event("step/end", 1, 1)
    log.event("llm/retry", 1, 1)
    log.event("llm/retry-started", 1, 1)
    log.event("step/start", 1, 2)
    log.message(1, 2)
    assert [row["attempt_id"] for row in attempts(tmp_path, log)] == ["s1/1.1.1", "s1/1.2.1"]


def test_the_inherited_prefix_is_skipped_but_its_context_stays_in_force(tmp_path: Path) -> None:
    log = Log(inherited_event_count=4)
    log.event("request/header", provider="old", model="old")
    log.event("request/context", provider="p", model="m")
    log.chunk("usage", input_tokens=9, output_tokens=9)
    log.message(input_tokens=9, output_tokens=9, usage_place="message")
    log.event("turn/start", 2)
    log.event("step/start", 2, 1)
    log.chunk("usage", 2, 1, input_tokens=1, output_tokens=1)
    (attempt,) = attempts(tmp_path, log)
    assert (attempt["attempt_id"], attempt["input_tokens"], attempt["model"]) == ("s1/2.1.1", 1, "m")


def test_an_invalid_usage_is_in_no_sum(tmp_path: Path) -> None:
    log = begun()
    log.message(invalid_usage='{"inputTokens":-1,"outputTokens":5}', output_tokens=5, usage_place="message")
    (attempt,) = attempts(tmp_path, log)
    assert (attempt["usage_source"], attempt["output_tokens"], attempt["total_tokens"]) == ("invalid", None, None)


def test_a_branch_has_slots_of_its_own(tmp_path: Path) -> None:
    log = begun()
    log.chunk("usage", input_tokens=1, output_tokens=1)
    log.back_to(2)
    log.chunk("usage", input_tokens=2, output_tokens=1)
    log.message(input_tokens=2, output_tokens=1, usage_place="message")
    found = attempts(tmp_path, log)
    assert [(row["attempt_id"], row["input_tokens"]) for row in found] == [("s1/1.1.1", 1), ("s1/1.1.1/b1", 2)]
