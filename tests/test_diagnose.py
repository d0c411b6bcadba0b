"""`turnlake diagnose`: each cause from a small log that shows it, what is told beside it, and the list of a lake."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from logs import Object, Session, file_name, text, write
from official import Official
from turnlake.api import connect
from turnlake.cli import main
from turnlake.inspect import session as inspected
from turnlake.inspect.causes import CAUSES, PHASES
from turnlake.inspect.diagnosis import Diagnosis, diagnose
from turnlake.inspect.runbook import session_json, session_lines

ROUTE = {"provider": "deepseek-official", "model": "deepseek-v4-pro"}
LIMITED = {"message": "slow down", "code": "RATE_LIMIT", "status": 429, "requestId": "req-1"}
ASKING = [("c1", "bash", "{}"), ("c2", "read", "{}")]
STORIES: dict[str, tuple[str, str, Callable[[], Session]]] = {}


def story(cause: str, state: str, version: int = 4) -> Callable[[Callable[[Session], object]], None]:
    """Registers a log whose last turn ends in that state for that cause; it is named for the function."""

    def register(tell: Callable[[Session], object]) -> None:
        name = tell.__name__.replace("_", "-")

        def told() -> Session:
            session = Session(version, id=name)
            tell(session)
            return session

        STORIES[name] = (cause, state, told)

    return register


def header(session: Session) -> None:
    session.add("request/header", {"reason": "initial", "header": {"config": ROUTE}})
    session.add("request/context", {**ROUTE, "contextWindow": 1000})


def asked(session: Session) -> None:
    """A turn whose request is out."""
    session.open_step()
    header(session)


def finish(session: Session, **reason: Any) -> Object:
    return {"type": "chunk", "time": session.time, "chunk": {"type": "finish", "reason": reason}}


def attempt(session: Session, **failure: Any) -> int:
    """A call that failed and left its stream."""
    return session.add(
        "assistant/attempt", session.place | {"stream": [finish(session, kind="error", failure=failure)]}
    )


def retry(session: Session, number: int, allowed: int = 2, failure: Object = LIMITED, *, started: bool = True) -> None:
    attempt(session, **failure)
    place = session.place | {"retryId": f"r{number}", "retry": number}
    facts = {"provider": "deepseek-official", "mode": "normal", "policyKey": "k", "maxRetries": allowed, "delayMs": 500}
    session.add("llm/retry", place | facts | {"failure": failure})
    if started:
        session.add("llm/retry-started", place)


def failed(session: Session, **failure: Any) -> None:
    session.step_end()
    session.turn_end("error", error={"message": "it broke", **failure})


def made_up(session: Session, call_id: str, code: str, time: int) -> None:
    """The result that the harness writes for a call when it loads the session again."""
    message = session.result_message(call_id, "made up")
    error = {"name": "X", "code": code}
    session.add("tool/result", session.place | {"message": message, "error": error}, surfaceOp="append", time=time)


def closed_afterwards(session: Session, time: int, *, step: bool) -> None:
    if step:
        session.add("step/end", session.place, time=time)
    session.add("turn/end", {"turn": session.turn_number, "reason": {"kind": "interrupted"}}, time=time)
    session.add("session/end-seed", {})


@story("claim_rejected", "blocked")
def refused_at_once(session: Session) -> None:
    session.turn()
    session.turn_start()
    session.turn_end("blocked")


@story("step_rejected", "blocked")
def refused_later(session: Session) -> None:
    asked(session)
    session.assistant("", ASKING[:1])
    session.call()
    session.result()
    session.step_end()
    session.turn_end("blocked")


@story("claim_unfinished", "dangling")
def died_before_a_step(session: Session) -> None:
    session.turn()
    session.turn_start()


@story("request_not_dispatched", "dangling", 0)
def never_asked(session: Session) -> None:
    session.open_step()


@story("request_unanswered", "dangling", 0)
def asked_in_vain(session: Session) -> None:
    asked(session)


@story("answer_not_recorded", "dangling")
def died_in_a_request(session: Session) -> None:
    asked(session)


@story("answer_not_recorded", "interrupted")
def died_in_a_request_and_was_closed(session: Session) -> None:
    asked(session)
    closed_afterwards(session, session.time - 1, step=True)


@story("retry_not_started", "dangling")
def died_before_a_retry(session: Session) -> None:
    asked(session)
    retry(session, 1, started=False)


@story("compaction_unfinished", "dangling")
def died_in_a_compaction(session: Session) -> None:
    asked(session)
    attempt(session, message="too long", code="CONTEXT_WINDOW_EXCEEDED")
    session.add("compaction/start", {"compactionId": "k1", "turn": 1})


@story("stream_broke", "dangling", 0)
def died_in_an_answer(session: Session) -> None:
    asked(session)
    session.chunk({"type": "text-delta", "index": 0, "text": "Hel"})


@story("stream_broke", "error")
def answer_broke_off(session: Session) -> None:
    asked(session)
    attempt(session, message="closed", code="STREAM_CLOSED")
    failed(session, code="STREAM_CLOSED")


@story("call_without_result", "dangling")
def died_in_a_tool(session: Session) -> None:
    asked(session)
    session.assistant("", ASKING)
    session.call()


@story("call_without_result", "interrupted")
def died_in_a_tool_and_was_closed(session: Session) -> None:
    asked(session)
    session.assistant("", ASKING)
    session.call()
    time = session.time - 1
    made_up(session, "c1", "TOOL_OUTCOME_UNKNOWN", time)
    made_up(session, "c2", "TOOL_NOT_STARTED", time)
    closed_afterwards(session, time, step=True)


@story("step_not_closed", "dangling")
def died_behind_the_results(session: Session) -> None:
    asked(session)
    session.assistant("", ASKING[:1])
    session.call()
    session.result()


@story("turn_not_closed", "dangling")
def died_between_steps(session: Session) -> None:
    asked(session)
    session.assistant()
    session.step_end()


@story("turn_not_closed", "interrupted")
def died_between_steps_and_was_closed(session: Session) -> None:
    asked(session)
    session.assistant()
    session.step_end()
    closed_afterwards(session, session.time - 1, step=False)


@story("tools_failed", "error", 0)
def loop_failed(session: Session) -> None:
    asked(session)
    session.assistant("", ASKING[:1])
    session.call()
    failed(session, code="UNKNOWN")


@story("failed_before_request", "error")
def failed_at_once(session: Session) -> None:
    session.turn_start()
    session.turn_end("error", error={"message": "it broke", "code": "UNKNOWN"})


@story("provider_setup", "error")
def no_key(session: Session) -> None:
    asked(session)
    failed(session, code="MISSING_CREDENTIAL")


@story("quota_exhausted", "error")
def no_money(session: Session) -> None:
    asked(session)
    attempt(session, message="balance", code="QUOTA", status=402)
    failed(session, code="QUOTA", status=402)


@story("context_overflow", "error")
def too_long(session: Session) -> None:
    asked(session)
    attempt(session, message="too long", code="CONTEXT_WINDOW_EXCEEDED")
    failed(session, code="CONTEXT_WINDOW_EXCEEDED")


@story("retries_exhausted", "error")
def asked_again_and_again(session: Session) -> None:
    asked(session)
    retry(session, 1)
    retry(session, 2)
    attempt(session, **LIMITED)
    failed(session, **LIMITED)


@story("failed_after_retries", "error")
def asked_again(session: Session) -> None:
    asked(session)
    retry(session, 1, failure={"message": "?", "code": "UNKNOWN"})
    attempt(session, message="no", code="INVALID_REQUEST", status=400, requestId="req-7")
    failed(session, message="no", code="INVALID_REQUEST", status=400, requestId="req-7")


@story("provider_error", "error")
def server_failed(session: Session) -> None:
    asked(session)
    attempt(session, message="down", code="SERVER", status=503)
    failed(session, code="SERVER", status=503)


@story("max_tokens_empty", "max-tokens")
def nothing_said(session: Session) -> None:
    asked(session)
    message = {"id": "a", "role": "assistant", "content": [], "source": {"kind": "model"} | ROUTE}
    data = session.place | {"stream": [finish(session, kind="max-tokens")], "message": message}
    session.add("assistant/message", data, surfaceOp="append")
    session.step_end()
    session.turn_end("max-tokens")


@story("max_tokens", "max-tokens")
def cut_short(session: Session) -> None:
    asked(session)
    session.assistant("The first half of")
    session.step_end()
    session.turn_end("max-tokens")


@story("cancelled", "aborted")
def cancelled_while_answering(session: Session) -> None:
    asked(session)
    message = {"id": "a", "role": "assistant", "content": [{"type": "text", "text": "He"}], "source": {"kind": "model"}}
    data = session.place | {"stream": [], "message": message, "interrupted": True}
    session.add("assistant/message", data, surfaceOp="append")
    session.step_end()
    session.turn_end("aborted", reason={"kind": "user"})


@story("cancelled", "aborted")
def cancelled_before_a_step(session: Session) -> None:
    session.turn_start()
    session.turn_end("aborted", reason={"kind": "parent"})


@story("cancelled", "aborted")
def cancelled_while_waiting(session: Session) -> None:
    asked(session)
    retry(session, 1, started=False)
    session.step_end()
    session.turn_end("aborted", reason={"kind": "disposed"})


@story("cancelled", "aborted")
def cancelled_before_tools(session: Session) -> None:
    asked(session)
    session.assistant("", ASKING[:1])
    session.call()
    session.result(data={"error": {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}})
    session.step_end()
    session.turn_end("aborted", reason={"kind": "hook", "reason": "not on a Friday"})


@story("cancelled", "aborted")
def denied_then_cancelled(session: Session) -> None:
    asked(session)
    session.assistant("", ASKING[:1])
    session.call()
    session.add("approval/asked", {"id": "p1", "toolName": "bash", "callId": "c1"})
    session.add("approval/decided", {"id": "p1", "outcome": "rejected"})
    session.result(data={"error": {"name": "Denied", "code": "DENIED"}})
    session.step_end()
    session.turn_end("aborted", reason={"kind": "legacy"})


@story("forked", "forked")
def forked_while_open(session: Session) -> None:
    asked(session)
    session.step_end()
    session.turn_end("forked")


@story("unknown_end", "galactic")
def ended_in_a_new_way(session: Session) -> None:
    asked(session)
    session.assistant()
    session.step_end()
    session.turn_end("galactic")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of all stories, and of a session with nothing to tell."""
    root, lake = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("lakes") / "lake"
    sessions = {name: told() for name, (_, _, told) in STORIES.items()}
    for name, session in (sessions | {"fine": Session(4, id="fine").turn()}).items():
        write(root, session.raw, file_name(session.version), name)
    assert main(["build", str(root), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    return lake


@pytest.fixture
def db(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(lake) as db:
        yield db


Tell = Callable[[str], Diagnosis]


@pytest.fixture
def tell(db: duckdb.DuckDBPyConnection) -> Tell:
    """The diagnosis of the last turn of a story."""
    return lambda name: diagnose(inspected.Session(db, name, (name,)))[-1]


def test_every_cause_has_a_story() -> None:
    assert {cause for cause, _, _ in STORIES.values()} == set(CAUSES)


@pytest.mark.parametrize("name", STORIES)
def test_the_cause_is_told(tell: Tell, name: str) -> None:
    found = tell(name)
    cause, state, _ = STORIES[name]
    assert (found.cause, found.state) == (cause, state)
    assert found.headline == CAUSES[cause].headline
    assert found.meaning == CAUSES[cause].meaning
    assert found.format_version in (0, 4)
    assert found.may_be_running is (state == "dangling")


@pytest.mark.parametrize(
    ("name", "type_", "step"),
    [
        ("refused-at-once", "turn/start", None),
        ("refused-later", "step/end", 1),
        ("died-before-a-step", "turn/start", None),
        ("died-in-a-tool", "step/start", 1),
        ("died-in-a-tool-and-was-closed", "step/start", 1),
        ("died-in-a-request-and-was-closed", "step/start", 1),
        ("died-between-steps", "step/end", 1),
        ("died-between-steps-and-was-closed", "step/end", 1),
    ],
)
def test_the_last_bracket_is_one_that_the_turn_wrote_itself(
    tell: Tell, name: str, type_: str, step: int | None
) -> None:
    bracket = tell(name).last_bracket
    assert bracket is not None
    assert (bracket.type, bracket.step) == (type_, step)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("cancelled-while-answering", "while an answer came in"),
        ("cancelled-before-a-step", PHASES["claim"]),
        ("cancelled-while-waiting", "while it waited to ask again"),
        ("cancelled-before-tools", "while tools were due"),
        ("cancelled-before-tools", "1 tool call cancelled before dispatch: bash"),
        ("denied-then-cancelled", "was denied"),
        ("died-in-a-tool", "was started and has no result"),
        ("died-in-a-tool", "was asked for and never started"),
        ("died-in-a-tool", "TOOL_OUTCOME_UNKNOWN, tool/result TOOL_NOT_STARTED, step/end, turn/end"),
        ("died-in-a-tool-and-was-closed", "its result was made up afterwards: what it did is unknown"),
        ("died-in-a-tool-and-was-closed", "the harness closed the turn when it loaded the session again"),
        ("asked-again-and-again", "asked again 2 times in step 1"),
        ("died-in-a-request", "1 model call of unknown usage"),
    ],
)
def test_what_else_there_is_to_know(tell: Tell, name: str, note: str) -> None:
    assert [text for text in tell(name).notes if note in text]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cancelled-while-answering", "a person cancelled it"),
        ("cancelled-before-a-step", "the session it worked for cancelled it"),
        ("cancelled-while-waiting", "the program closed the session"),
        ("cancelled-before-tools", "it was cancelled: not on a Friday"),
        ("denied-then-cancelled", "does not say by whom"),
        ("server-failed", "it failed: SERVER, status 503"),
        ("ended-in-a-new-way", "it ended as galactic"),
    ],
)
def test_the_end_is_put_in_words(tell: Tell, name: str, words: str) -> None:
    assert words in tell(name).ended


def test_the_first_failure_with_a_code_that_says_something_is_told(tell: Tell) -> None:
    limited, invalid = tell("asked-again-and-again").failure, tell("asked-again").failure
    assert limited is not None and invalid is not None
    assert (limited.code, limited.status, limited.request_id) == ("RATE_LIMIT", 429, "req-1")
    assert (invalid.code, invalid.status, invalid.request_id) == ("INVALID_REQUEST", 400, "req-7")
    assert tell("died-in-a-tool").failure is None


def test_route_and_settings_are_those_of_the_turn(tmp_path: Path) -> None:
    session = Session(4, id="s1", agentPreset="ptc")
    session.add("permission/preset", {"preset": "workspace-write"})
    session.add("sandbox/mode", {"mode": "read-only"})
    asked(session)
    session.assistant()
    session.step_end()
    session.turn_end("max-tokens")
    session.add("permission/preset", {"preset": "full"})
    write(tmp_path / "logs", session.raw)
    assert main(["build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    with connect(tmp_path / "lake") as db:
        [found] = diagnose(inspected.Session(db, "s1", ("s1",)))
    assert found.settings == {
        "permission_preset": "workspace-write",
        "sandbox_mode": "read-only",
        "approval_policy": None,
        "agent_preset": "ptc",
    }
    assert (found.provider, found.model) == (ROUTE["provider"], ROUTE["model"])


def test_a_session_where_all_went_well_is_fine(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "fine", "--lake", str(lake)]) == 0
    assert "1 turn: each ran to its end" in capsys.readouterr().out


def test_one_turn_alone(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diagnose", "died-before-a-step", "--lake", str(lake), "--turn"]
    assert main([*words, "1"]) == 0
    assert "turn 1 ran to its end" in capsys.readouterr().out
    assert main([*words, "2"]) == 1
    assert "turn 2  dangling" in capsys.readouterr().out
    assert main([*words, "3"]) == 2
    assert "it has 1, 2" in capsys.readouterr().err


def test_json_holds_the_same(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "asked-again", "--json", "--lake", str(lake)]) == 1
    answer = json.loads(capsys.readouterr().out)
    [turn] = answer["turns"]
    assert answer["session_id"] == "asked-again" and answer["log"]["verdict"] == "clean"
    assert turn["cause"] == "failed_after_retries"
    assert turn["failure"]["request_id"] == "req-7"
    assert turn["last_bracket"]["type"] == "step/end"
    assert [step["command"].split()[1] for step in turn["next"]] == ["show", "show", "trace"]


def test_the_lake_lists_what_is_worth_a_look_the_gravest_first(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--json", "--lake", str(lake)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {row["session_id"] for row in found} == set(STORIES)
    states = [row["states"].split()[-1] for row in found if row["verdict"] == "clean"]
    order = ["error", "dangling", "interrupted", "blocked", "max-tokens", "forked", "galactic", "aborted"]
    assert sorted(states, key=lambda state: min(order.index(state), 5) + (state == "aborted")) == states
    assert main(["diagnose", "--lake", str(lake)]) == 1
    out = capsys.readouterr()
    assert "1 error, last RATE_LIMIT" in out.out
    assert "turnlake diagnose " in out.err


def test_a_lake_where_all_went_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "logs", Session().turn().raw)
    assert main(["build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    capsys.readouterr()
    assert main(["diagnose", "--lake", str(tmp_path / "lake")]) == 0
    assert "every turn of every session ran to its end" in capsys.readouterr().out


def test_a_refused_log_is_not_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session().turn()
    session.line(b"{broken")
    session.turn()
    path = write(tmp_path, session.raw)
    assert main(["diagnose", str(path)]) == 1
    out = capsys.readouterr().out
    assert "refused (corrupt)" in out
    assert "can't open the session" in out


def test_next_commands_name_lake_and_file_again(lake: Path, db: duckdb.DuckDBPyConnection) -> None:
    target = ("/odd name/session.jsonl",)
    [found] = diagnose(inspected.Session(db, "died-in-a-tool", target))
    assert found.next[0].command == "turnlake show '/odd name/session.jsonl' --turn 1"


def test_a_turn_wants_a_session(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--turn", "1", "--lake", str(lake)]) == 2
    assert "--turn wants a SESSION" in capsys.readouterr().err


def test_official_logs_are_diagnosed(official: Official) -> None:
    for name in sorted(official.logs)[::9]:
        session = inspected.Session(official.db, name, (name,))
        if official.db.execute("from marts.sessions where session_id = ?", [name]).fetchall():
            found = diagnose(session)
            assert len(found) == sum(turn["state"] != "completed" for turn in session.turns)
            assert list(session_lines(session, found, None))
            assert json.dumps(session_json(session, found), default=str)


@pytest.mark.parametrize(
    ("config", "used", "told"),
    [
        (
            {"maxTokens": 900},
            900,
            "call 1 of step 1 used 900 output tokens; maxTokens of its request was 900",
        ),
        (
            {"maxTokens": 9000},
            900,
            "call 1 of step 1 used 900 output tokens; maxTokens of its request was 9,000: a lower limit, of the "
            "provider or model, cut it off",
        ),
        (
            {"maxTokens": 9000},
            None,
            "call 1 of step 1 used an unknown number of output tokens; maxTokens of its request was 9,000",
        ),
        (
            {"maxTokens": "many"},
            900,
            "call 1 of step 1 used 900 output tokens; its request states no maxTokens, so the limit was that of the "
            "provider or model",
        ),
    ],
)
def test_a_limit_that_was_hit_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: Object, used: int | None, told: str
) -> None:
    session = Session(4, id="s1").open_step()
    session.add("request/header", {"reason": "initial", "header": {"config": ROUTE | config}})
    message = {"id": "a", "role": "assistant", "content": [], "source": {"kind": "model", **ROUTE}}
    data = session.place | {"stream": [finish(session, kind="max-tokens")], "message": message}
    usage = {} if used is None else {"usage": {"inputTokens": 5, "outputTokens": used}}
    session.add("assistant/message", data | usage, surfaceOp="append")
    session.step_end()
    session.turn_end("max-tokens")
    assert main(["diagnose", str(write(tmp_path, session.raw))]) == 1
    out = capsys.readouterr().out
    assert told in [line.removeprefix("  note").strip() for line in out.splitlines()]


def test_a_blocked_turn_names_what_was_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(4, id="s1")
    asked_for = {"id": "m", "role": "user", "content": [text("Push it.")], "source": {"kind": "user"}}
    session.add("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [asked_for]})
    session.turn_start()
    session.add("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []})
    session.turn_end("blocked")
    assert main(["diagnose", str(write(tmp_path, session.raw))]) == 1
    assert "rejected: Push it." in capsys.readouterr().out
