"""dsh and turnlake end to end: what the model was asked and billed is what log and lake say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.agreement import check, tools, turns, wait
from e2e.follower import Follower
from e2e.harness import V3, V4, Harness, Release
from e2e.model import Model
from e2e.script import Answer, Call, Failure, Used

both = pytest.mark.parametrize("release", [V3, V4], ids=str)
Install = Callable[[Release], Harness]
# A tool that says when it runs and goes on until it is told to end, a minute at most.
HOLD = "touch held; for i in $(seq 600); do [ -e release ] && break; sleep 0.1; done; echo released"


@both
def test_an_answer_in_text(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    model.says(Answer(Used(11, 7, cache_read=5, cache_write=3), "Hello. 你好 \u2028 🙂"))
    with follower.beside():
        assert harness.run("Say hello.") == 0
    check(harness, model, follower)
    assert turns(follower) == [("completed", False)]
    assert tools(follower) == []


@both
def test_a_tool_round_trip(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    look = Call.bash("call-1", "echo hello; sleep 2")
    model.says(
        Answer(Used(100, 20, cache_write=64), "I look.", reasoning="Is it there?", calls=(look,)),
        Answer(Used(30, 8, cache_read=100), "It is there."),
    )
    with follower.beside():
        assert harness.run("Is it there?") == 0
    check(harness, model, follower)
    assert turns(follower) == [("completed", False)]
    assert tools(follower) == [("call-1", "ok", False)]


@both
def test_tools_in_parallel(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    (harness.work / "one.txt").write_text("one\n")
    reads = tuple(Call(name, "read", {"file_path": f"{harness.work}/{name}.txt"}) for name in ("one", "none"))
    # This one waits for the others: only reading is done side by side.
    finds = Call("finds", "glob", {"pattern": "*.txt"})
    model.says(
        Answer(Used(100, 20), calls=(*reads, finds)),
        Answer(Used(30, 8, cache_read=100), "One of two."),
    )
    with follower.beside():
        assert harness.run("Read both.") == 0
    check(harness, model, follower)
    assert turns(follower) == [("completed", False)]
    assert tools(follower) == [("one", "ok", True), ("none", "error", True), ("finds", "ok", False)]


@both
def test_retries(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    model.says(Failure(500), Failure(500), Answer(Used(11, 7), "At last."))
    with follower.beside():
        assert harness.run("Try.") == 0
    check(harness, model, follower)
    assert turns(follower) == [("completed", False)]
    counts = "attempt_count, retry_count, unknown_usage_attempt_count"
    assert follower.query(f"select {counts} from marts.turns") == [(3, 2, 2)]


@both
def test_an_error_that_no_retry_helps(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    model.says(Failure(400))
    with follower.beside():
        assert harness.run("Try.") == 1
    check(harness, model, follower)
    assert turns(follower) == [("error", False)]
    assert follower.query("select error_status, input_tokens from marts.turns") == [(400, None)]


@both
def test_a_stream_that_breaks(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    model.says(Answer(Used(11, 7, cache_read=5), "Once upon", is_broken=True))
    with follower.beside():
        assert harness.run("Tell me.") == 1
    check(harness, model, follower)
    assert turns(follower) == [("error", False)]
    query = "select error_code, unknown_usage_attempt_count, total_tokens, cost from marts.turns"
    assert follower.query(query) == [("STREAM_CLOSED", 1, None, None)]


@both
def test_all_tokens_and_no_answer(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    model.says(Answer(Used(500, 64), is_cut=True))
    with follower.beside():
        assert harness.run("Write a book.") == 1
    check(harness, model, follower)
    assert turns(follower) == [("max-tokens", False)]
    assert follower.query("select empty_max_tokens_count, output_tokens from marts.turns") == [(1, 64)]


@both
def test_a_crash_within_a_tool(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    with follower.beside():
        crash(harness, model, follower)
    check(harness, model, follower)
    assert turns(follower) == [("dangling", False)]
    assert tools(follower) == [("held", "open", False), ("next", "open", False)]


@pytest.mark.parametrize("release", [V4], ids=str)
def test_going_on_after_a_crash(release: Release, install: Install, model: Model, follower: Follower) -> None:
    harness = install(release)
    with follower.beside():
        crash(harness, model, follower)
        model.says(Answer(Used(40, 9), "I go on."))
        assert harness.run("Go on.", harness.session_id) == 0
    check(harness, model, follower)
    assert turns(follower) == [("interrupted", True), ("completed", False)]
    assert tools(follower) == [("held", "unknown", False), ("next", "not_started", False)]


def crash(harness: Harness, model: Model, follower: Follower) -> None:
    """Kills the harness while it waits for the first of two tools, once the lake shows that it does."""
    model.says(Answer(Used(100, 20), "I wait.", calls=(Call.bash("held", HOLD), Call.bash("next", "true"))))
    with harness.running("Wait for me.") as process:
        wait((harness.work / "held").exists, "the tool to run")
        wait(lambda: bool(tools(follower)), "the lake to show its call")
        assert turns(follower) == [("dangling", False)]
        process.kill()
        process.wait()
    # The tool lives on, in a process group of its own.
    (harness.work / "release").touch()
