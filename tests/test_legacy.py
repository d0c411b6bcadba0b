"""Older event shapes inside v0 logs, read as the shapes of today."""

from __future__ import annotations

from typing import Any

import pytest

from logs import USAGE, Session, Stored, codes, event_texts, file_name, read, text
from turnlake.format.records import EventLine

BLOCKS = [text("words")]
MODEL = {"provider": "deepseek-official", "model": "deepseek-v4-pro"}
SUMMARY = {"summary": BLOCKS, "shadowedSeqs": []}


def only(type_: str, data: Any, version: int = 0, **members: Any) -> Session:
    """A log in which the event stands inside an open step, as event 3."""
    session = Session(version).open_step()
    session.add(type_, data, **members)
    return session


@pytest.mark.parametrize(
    ("type_", "data", "new_type", "new_data"),
    [
        (
            "steering/message",
            {"turn": 1, "message": {"id": "u", "role": "user", "content": BLOCKS, "source": {"kind": "user"}}},
            "user/message",
            {"id": "u", "role": "user", "content": BLOCKS, "source": {"kind": "user"}},
        ),
        (
            "steering/message",
            {"turn": 1, "content": BLOCKS, "source": {"kind": "user"}},
            "user/message",
            {"id": "legacy-message:s1:3", "role": "user", "content": BLOCKS, "source": {"kind": "user"}},
        ),
        (
            "user/message",
            {"content": BLOCKS, "source": {"kind": "user"}},
            "user/message",
            {"id": "legacy-message:s1:3", "role": "user", "content": BLOCKS, "source": {"kind": "user"}},
        ),
        (
            "assistant/message",
            {"turn": 1, "step": 1, "content": BLOCKS, "provenance": MODEL, "usage": USAGE},
            "assistant/message",
            {
                "turn": 1,
                "step": 1,
                "usage": USAGE,
                "message": {
                    "id": "legacy-message:s1:3",
                    "role": "assistant",
                    "content": BLOCKS,
                    "source": {"kind": "model"} | MODEL,
                },
            },
        ),
        ("compact/start", {"turn": None}, "compaction/start", {"compactionId": "legacy-compaction:s1:3", "turn": None}),
        ("compact/start", {"compactionId": "k", "turn": None}, "compaction/start", {"compactionId": "k", "turn": None}),
        (
            "turn/end",
            {"turn": 1, "reason": {"kind": "aborted"}},
            "turn/end",
            {"kind": "aborted", "reason": {"kind": "legacy"}},
        ),
        (
            "turn/end",
            {"turn": 1, "reason": {"kind": "disposed"}},
            "turn/end",
            {"kind": "aborted", "reason": {"kind": "disposed"}},
        ),
        (
            "turn/end",
            {"turn": 1, "reason": {"kind": "error", "step": 1, "message": "m", "code": "C"}},
            "turn/end",
            {"kind": "error", "error": {"message": "m", "code": "C"}},
        ),
        (
            "turn/end",
            {"turn": 1, "reason": {"kind": "error", "step": 1, "message": "m"}},
            "turn/end",
            {"kind": "error", "error": {"message": "m", "code": "UNKNOWN"}},
        ),
        (
            "turn/end",
            {"turn": 1, "reason": {"kind": "error", "step": 1, "failure": {"message": "m", "code": "C"}}},
            "turn/end",
            {"kind": "error", "error": {"message": "m", "code": "C"}},
        ),
        ("llm/retry", {"turn": 1, "retry": 1}, "llm/retry", {"retryId": "legacy-retry:s1:3", "turn": 1, "retry": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_older_shapes(type_: str, data: Any, new_type: str, new_data: Any) -> None:
    is_surface = new_type.endswith("/message")
    session = only(type_, data, surfaceOp="append" if is_surface else ...)
    event = read(session).events[3]
    assert event["type"] == new_type
    assert (event["data"]["reason"] if new_type == "turn/end" else event["data"]) == new_data
    stored = Stored(session.raw, file_name(0))
    assert stored.replayed() == event_texts(read(session))
    assert stored.events[-1]["raw_line"] == session.lines[-1].decode()


def test_an_older_tool_result() -> None:
    session = Session(0).open_step()
    session.assistant("", [("c1", "bash", "{}")])
    seq = session.call()
    data = {"callId": "c1", "content": BLOCKS, "isError": True, "meta": {"x": 1}, "error": {"code": "E"}}
    session.add("tool/result", session.place | data, surfaceOp="append", sourceEventSeqs=[seq])
    log = read(session)
    assert log.verdict.verdict == "clean"
    assert log.events[-1]["data"] == session.place | {
        "meta": {"x": 1},
        "error": {"code": "E"},
        "message": {
            "id": f"legacy-message:s1:{session.seq - 1}",
            "role": "user",
            "source": {"kind": "tool", "callId": "c1"},
            "content": [{"type": "tool-result", "toolCallId": "c1", "content": BLOCKS, "isError": True}],
        },
    }
    assert Stored(session.raw, file_name(0)).replayed() == event_texts(log)


def test_the_trigger_of_a_turn_is_dropped() -> None:
    session = Session(0)
    session.add("turn/start", {"turn": 1, "trigger": "user"})
    log = read(session)
    assert (log.verdict.verdict, log.events[0]["data"]) == ("clean", {"turn": 1})


def test_one_compaction_has_one_id() -> None:
    session = Session(0)
    for type_, data in (("start", {}), ("summary", SUMMARY), ("end", {}), ("start", {}), ("prune", {})):
        session.add(f"compact/{type_}", data)
    ids = [event["data"]["compactionId"] for event in read(session).events]
    assert ids == ["legacy-compaction:s1:0"] * 3 + ["legacy-compaction:s1:3"] * 2


@pytest.mark.parametrize("version", [0, 1])
def test_a_shape_of_today_is_the_same_object(version: int) -> None:
    log = read(Session(version).turn_with_call())
    assert not any(one.normalised_from for one in log.records if isinstance(one, EventLine))
    assert "legacy_shape_in_v1" not in codes(log)


def test_an_older_shape_in_v1_is_read_and_flagged() -> None:
    log = read(only("user/message", {"content": BLOCKS, "source": {"kind": "user"}}, 1, surfaceOp="append"))
    assert log.events[3]["data"]["id"] == "legacy-message:s1:3"
    assert "legacy_shape_in_v1" in codes(log)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_older_shape_is_none_from_v2_on(version: int) -> None:
    session = only("steering/message", {"turn": 1, "content": BLOCKS}, version)
    log = read(session)
    assert log.events[3]["type"] == "steering/message"
    assert (log.verdict.verdict, log.verdict.reason) == ("refused", "unknown_type")


def test_a_message_with_a_role_but_no_id_is_refused() -> None:
    log = read(
        only("user/message", {"role": "user", "content": BLOCKS, "source": {"kind": "user"}}, surfaceOp="append")
    )
    assert (log.verdict.verdict, log.verdict.reason) == ("refused", "invalid_payload")


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("type_", ["request/header-delta", "mode/set"])
def test_shapes_too_old_for_any_harness(type_: str, version: int) -> None:
    log = read(only(type_, {}, version))
    assert (log.verdict.verdict, log.verdict.reason) == ("refused", "unsupported_legacy")
    assert "unsupported_legacy" in codes(log)
    assert len(log.events) == 4


def test_a_header_with_reason_fallback_is_too_old() -> None:
    data = {"reason": "fallback", "header": {"config": {"provider": "deepseek", "model": "m"}}}
    log = read(only("request/header", data))
    assert (log.verdict.verdict, log.verdict.reason) == ("refused", "unsupported_legacy")


@pytest.mark.parametrize(
    "data", [None, {}, {"reason": {}}, {"turn": 1}, {"turn": 1, "reason": {}}, {"turn": 1, "reason": "x"}]
)
def test_a_turn_end_that_is_neither_old_nor_new_refuses(data: Any) -> None:
    session = Session(0).open_step()
    session.step_end()
    session.add("turn/end", data)
    assert read(session).verdict.verdict == "refused"
