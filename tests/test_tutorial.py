"""The dialect of public tutorials, and logs without a header."""

from __future__ import annotations

from typing import Any

import pytest

from logs import START_MS, Session, Stored, as_raw, codes, dumps, event_texts, header, read_bytes, text
from turnlake.format.tutorial import time_of

Object = dict[str, Any]

LINES: list[Object] = [
    {"type": "turn/start", "seq": 0, "time": "2026-08-25T12:00:00Z", "turn": 1},
    {"type": "user/message", "seq": 1, "data": {"content": "Hi"}, "sourceEventSeqs": [0]},
    {
        "type": "assistant/message",
        "seq": 2,
        "message": {"content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": 1}}]},
    },
    {"type": "tool/call", "seq": 3, "callId": "t1", "name": "ls", "data": {"arguments": "{}"}},
    {
        "type": "tool/result",
        "seq": 4,
        "data": {"message": {"role": "tool", "toolName": "ls", "content": "out", "isError": False}},
    },
    {"type": "turn/end", "seq": 5, "reason": "completed", "turn": 1},
]


def tutorial(*lines: Any, name: str = "demo.jsonl") -> Any:
    return read_bytes(as_raw(map(dumps, lines)), name)


def data_of(line: Object) -> Object:
    data: Object = tutorial({"seq": 0} | line).events[0]["data"]
    return data


def test_a_whole_log() -> None:
    log = tutorial(*LINES)
    assert (log.header, log.verdict.dialect, log.verdict.verdict) == (None, "tutorial", "clean")
    assert [event["seq"] for event in log.events] == [0, 1, 2, 3, 4, 5]
    assert [event["time"] for event in log.events] == [START_MS] * 6
    start, user, assistant, call, result, end = (event["data"] for event in log.events)
    assert start == {"turn": 1}
    assert user == {"id": "tutorial:demo:1", "role": "user", "content": [text("Hi")], "source": {"kind": "user"}}
    block = {"type": "tool-call", "id": "t1", "name": "ls", "arguments": '{"a":1}'}
    assert assistant["message"]["content"] == [block]
    assert (assistant["message"]["role"], assistant["message"]["source"]) == ("assistant", {"kind": "model"})
    assert call == {"callId": "t1", "name": "ls", "arguments": "{}"}
    assert result["message"] == {
        "id": "tutorial:demo:4",
        "role": "user",
        "source": {"kind": "tool", "callId": "t1"},
        "content": [{"type": "tool-result", "toolCallId": "t1", "content": [text("out")], "isError": False}],
    }
    assert end == {"turn": 1, "reason": {"kind": "completed"}}
    assert [event.get("surfaceOp") for event in log.events] == [None, "append", "append", None, "append", None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "turn/end", "data": {"reason": "error"}}, {"reason": {"kind": "error"}}),
        ({"type": "turn/start", "turn": 2, "data": {"turn": 3}}, {"turn": 3}),
        ({"type": "turn/start"}, {}),
        ({"type": "turn/start", "data": None}, {}),
        (
            {"type": "tool/call", "callId": "c", "name": "n", "arguments": "{}"},
            {"callId": "c", "name": "n", "arguments": "{}"},
        ),
    ],
    ids=str,
)
def test_members_beside_data_move_into_it(line: Object, expected: Object) -> None:
    assert data_of(line) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "tool_use", "id": "t", "name": "n", "arguments": "{}"},
            {"type": "tool-call", "id": "t", "name": "n", "arguments": "{}"},
        ),
        ({"type": "tool_use"}, {"type": "tool-call", "id": "", "name": "", "arguments": "{}"}),
        (text("plain"), text("plain")),
        ("odd", "odd"),
        (None, None),
    ],
    ids=str,
)
def test_blocks(block: Any, expected: Any) -> None:
    message = data_of({"type": "assistant/message", "data": {"message": {"content": [block]}}})["message"]
    assert message["content"] == [expected]


def test_a_foreign_result_block() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "out"}
    content = data_of({"type": "user/message", "data": {"content": [block]}})["content"]
    assert content[0]["type"] == "tool-result"
    assert (content[0]["toolCallId"], content[0]["content"]) == ("t1", [text("out")])


@pytest.mark.parametrize(
    ("result", "call_id"),
    [
        ({"data": {"callId": "x", "content": "o"}}, "x"),
        ({"data": {"message": {"toolCallId": "y", "content": "o"}}}, "y"),
        ({"data": {"content": "o"}, "sourceEventSeqs": [0]}, "a"),
        ({"data": {"message": {"toolName": "ls", "content": "o"}}}, "b"),
        ({"data": {"content": "o"}}, ""),
    ],
    ids=["data", "message", "sources", "the latest of that name", "none"],
)
def test_a_result_finds_its_call(result: Object, call_id: str) -> None:
    calls = [{"type": "tool/call", "seq": seq, "callId": id_, "name": "ls"} for seq, id_ in enumerate("ab")]
    log = tutorial(*calls, {"type": "tool/result", "seq": 2} | result)
    assert log.events[2]["data"]["message"]["source"] == {"kind": "tool", "callId": call_id}


def test_numbers_may_count_from_1() -> None:
    log = tutorial(*(line | {"seq": seq} for seq, line in enumerate(LINES, 1)))
    assert log.verdict.verdict == "clean"
    assert [event["seq"] for event in log.events] == [1, 2, 3, 4, 5, 6]


def test_a_number_missing_or_going_back_is_replaced_by_the_one_due() -> None:
    log = tutorial(*({"type": "turn/start", **seq} for seq in ({"seq": 3}, {}, {"seq": 1}, {"seq": 9}, {"seq": "x"})))
    assert [event["seq"] for event in log.events] == [3, 4, 5, 9, 10]


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (5, 5),
        (5.0, 5),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T02:00:01.5+02:00", 1500),
        ("soon", 7),
        (None, 7),
        (1.5, 7),
        (True, 7),
        ([], 7),
    ],
)
def test_times(value: Any, time: int) -> None:
    assert time_of(value, 7) == time


def test_breaches_are_warnings_in_a_log_without_header() -> None:
    log = tutorial({"type": "turn/end", "seq": 0, "turn": 7, "reason": "completed"})
    assert log.verdict.verdict == "clean"
    assert {finding.severity for finding in log.findings if finding.code.startswith("INV")} == {"warning"}


def test_a_real_header_and_foreign_lines_are_mixed() -> None:
    lines = [header(0), {"type": "turn/start", "seq": 0, "time": 5, "turn": 1, "data": {}}]
    log = read_bytes(as_raw(map(dumps, lines)), "session.jsonl")
    assert (log.verdict.dialect, log.events[0]["data"]) == ("mixed", {"turn": 1})


@pytest.mark.parametrize(
    ("name", "lines", "dialect", "verdict"),
    [
        ("session.jsonl", LINES, "tutorial", "refused"),
        ("demo.jsonl", LINES, "tutorial", "clean"),
        ("session.jsonl", [{"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}], "headerless", "refused"),
        ("demo.jsonl", [{"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}], "tutorial", "clean"),
    ],
    ids=["canonical with traits", "loose with traits", "canonical without", "loose without"],
)
def test_dialect_and_verdict(name: str, lines: list[Object], dialect: str, verdict: str) -> None:
    log = tutorial(*lines, name=name)
    assert (log.verdict.dialect, log.verdict.verdict) == (dialect, verdict)
    assert len(log.events) == len(lines)
    if verdict == "refused":
        assert (log.verdict.reason, log.verdict.line) == ("no_header", 1)
        assert "no_header" in codes(log)


@pytest.mark.parametrize("first", [b"# a heading", b"{}", b"[]", b'{"type":"x"}', b"", b"1", b'{"a":1}'])
def test_a_loose_file_of_something_else_is_no_log(first: bytes) -> None:
    log = read_bytes(as_raw([first, *map(dumps, LINES)]), "notes.jsonl")
    assert (log.verdict.dialect, log.records) == (None, ())


def test_events_read_back_are_those_read() -> None:
    data = as_raw(map(dumps, LINES))
    assert Stored(data, "demo.jsonl").replayed() == event_texts(read_bytes(data, "demo.jsonl"))


def test_a_real_log_shows_no_trait() -> None:
    for version in range(5):
        log = read_bytes(Session(version).turn_with_call().raw, "copy.jsonl")
        assert log.verdict.dialect == "real"
