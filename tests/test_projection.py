"""Messages rebuilt from small logs: every rule of the projection by itself, and what damage does to it."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import orjson
import pytest

import turnlake
from logs import VERSIONS, Session, dumps, read, read_bytes, text
from turnlake.errors import UsageError
from turnlake.format.types import MESSAGE_TYPES
from turnlake.format.values import canonical
from turnlake.messages.attempts import attempts
from turnlake.messages.derive import Projection
from turnlake.messages.frozen import Frozen, freeze
from turnlake.messages.surface import node_types

Object = dict[str, Any]
IMAGE = {"type": "image", "attachment": {"attachmentId": "sha256:00"}}


def replace_op(version: int, first: int, last: int) -> Object:
    names = ("startSeq", "endSeq") if version >= 3 else ("start", "end")
    return {"op": "replace", names[0]: first, names[1]: last}


def texts(messages: Any) -> list[str]:
    """The text of each message; of a tool result that inside."""
    blocks = ([part for block in message["content"] for part in block.get("content", [block])] for message in messages)
    return ["".join(block.get("text", "") for block in content) for content in blocks]


@pytest.mark.parametrize("version", VERSIONS)
def test_node_types_are_those_of_the_format(version: int) -> None:
    assert node_types(version) == MESSAGE_TYPES[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_turn_with_a_call(version: int) -> None:
    log = read(Session(version).turn_with_call(words="done"))
    messages = log.derive_messages()
    assert log.verdict.verdict == "clean"
    assert [message["role"] for message in messages] == ["user", "assistant", "tool" if version >= 4 else "user"]
    assert texts(messages) == ["Hi", "", "done"]
    assert log.derive_messages() is messages


@pytest.mark.parametrize("version", VERSIONS)
def test_normalised_messages_are_the_same_in_every_format(version: int) -> None:
    messages = turnlake.normalised_messages(read(Session(version).turn_with_call()).derive_messages())
    result = {"toolCallId": "c1", "content": [text("done")], "source": {"kind": "tool", "callId": "c1"}}
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert json.loads(json.dumps(messages[2])) == {"id": messages[2]["id"], "role": "tool"} | result


def test_messages_before_an_event() -> None:
    log = read(Session(4).turn().turn("Again", "Sure"))
    assert [len(log.derive_messages(seq)) for seq in (0, 2, 3, 4, 100)] == [0, 0, 1, 2, 4]
    first = log.derive_messages()[0]
    assert log.derive_messages(3)[0] is first, "a node is projected once"
    assert log.derive_messages(0) == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replacement_stands_where_the_first_stood(version: int) -> None:
    session = Session(version).turn().turn("Again", "Sure")
    nodes = read(session).projection.surface().nodes
    summary = session.user("sum", surfaceOp=replace_op(version, nodes[0], nodes[1]), sourceEventSeqs=list(nodes[:2]))
    # The new node has the higher seq and stands first, so this range falls in numbers.
    every = [summary, nodes[2]]
    log = read(session)
    assert texts(log.derive_messages()) == ["sum", "Again", "Sure"]
    whole = session.user("all", surfaceOp=replace_op(version, *every), sourceEventSeqs=sorted(every))
    log = read(session)
    surface = log.projection.surface()
    assert texts(log.derive_messages()) == ["all", "Sure"]
    assert [one.shadowed for one in surface.replacements] == [tuple(nodes[:2]), tuple(every)]
    assert surface.nodes == (whole, nodes[3])
    assert texts(log.derive_messages(summary)) == ["Hi", "Hello", "Again", "Sure"]


def test_empty_messages_are_nodes_that_say_nothing() -> None:
    session = Session(4)
    session.turn_start()
    session.step_start()
    system = session.add("system/message", session.place | {"message": message("system", [])}, surfaceOp="append")
    user = session.user()
    answer = session.assistant("")
    session.step_end()
    session.turn_end()
    log = read(session)
    assert log.projection.surface().nodes == (system, user, answer)
    assert [one["role"] for one in log.derive_messages()] == ["user"]


def test_a_replacement_that_says_nothing_takes_a_message_away() -> None:
    projection = Projection(4)
    system = {"turn": 1, "step": 1, "message": message("system", [text("S")])}
    projection.see(surface_event(0, "system/message", system))
    assert texts(projection.messages) == ["S"]
    empty = {"turn": 1, "step": 1, "message": message("system", [])}
    projection.see(surface_event(1, "system/message", empty, replace_op(4, 0, 0)))
    assert (projection.messages, projection.surface.nodes) == ((), (1,))


def test_an_empty_tool_result_is_a_message() -> None:
    session = Session(4).turn_with_call()
    result = session.result_message(words="") | {"content": []}
    events = [*read(session).events]
    events = [event | {"data": event["data"] | {"message": result}} if is_result(event) else event for event in events]
    assert len(turnlake.derive_messages(events, version=4)) == 3


def is_result(event: Object) -> bool:
    return bool(event["type"] == "tool/result")


def message(role: str, content: list[Object], **members: Any) -> Object:
    return {"id": f"m-{role}", "role": role, "content": content, "source": {"kind": role}} | members


def surface_event(seq: int, kind: str, data: Object, op: Any = "append") -> Object:
    return {"type": kind, "seq": seq, "time": seq, "data": data, "surfaceOp": op}


def offload(seq: int, *targets: tuple[Any, Any]) -> Object:
    listed = [{"seq": node, "imageIndexes": indexes} for node, indexes in targets]
    return {"type": "image/offload", "seq": seq, "time": seq, "data": {"targets": listed}}


def with_images(version: int) -> list[Object]:
    """A user message with two images, and a tool's result with one inside."""
    user = message("user", [text("look"), IMAGE, IMAGE])
    content = [{"type": "tool-result", "toolCallId": "c", "content": [IMAGE]}] if version < 4 else [IMAGE]
    result = {"turn": 1, "step": 1, "message": message("tool", content)}
    return [surface_event(0, "user/message", user), surface_event(1, "tool/result", result)]


def marks(messages: Any) -> list[bool]:
    """Whether each image is offloaded, depth-first."""
    found = []
    for one in messages:
        for block in one["content"]:
            found += [bool(part.get("offloaded")) for part in block.get("content", [block]) if part["type"] == "image"]
    return found


@pytest.mark.parametrize("version", [3, 4])
def test_offloaded_images(version: int) -> None:
    events = [*with_images(version), offload(2, (0, [1])), offload(3, (0, [0]), (1, [0]))]
    assert [marks(turnlake.derive_messages(events[:n], version=version)) for n in (2, 3, 4)] == [
        [False, False, False],
        [False, True, False],
        [True, True, True],
    ]
    assert events[0] == with_images(version)[0], "the event stays as it was"


@pytest.mark.parametrize(
    "targets",
    [
        [],
        [(0, [2])],
        [(0, [])],
        [(0, [1, 0])],
        [(0, [0, 0])],
        [(0, ["0"])],
        [(0, None)],
        [(7, [0])],
        [("0", [0])],
        [(True, [0])],
        [([0], [0])],
    ],
)
def test_offloads_that_name_nothing_are_faults(targets: list[tuple[Any, Any]]) -> None:
    projection = Projection(4)
    for event in [*with_images(4), offload(2, *targets)]:
        projection.see(event)
    assert not any(marks(projection.messages))
    assert [fault.seq for fault in projection.surface.faults] == [2]


def test_an_image_is_offloaded_once() -> None:
    projection = Projection(4)
    for event in [*with_images(4), offload(2, (0, [0]), (0, [1])), offload(3, (0, [0]))]:
        projection.see(event)
    assert marks(projection.messages) == [True, False, False]
    assert [fault.seq for fault in projection.surface.faults] == [2, 3]


def test_no_offloads_before_format_3() -> None:
    events = [*with_images(2), offload(2, (0, [0]))]
    assert not any(marks(turnlake.derive_messages(events, version=2)))


@pytest.mark.parametrize(
    "op", [replace_op(4, 7, 7), replace_op(4, 1, 0), replace_op(2, 0, 0), {"op": "replace"}, replace_op(4, True, 1)]
)
def test_a_replacement_of_nothing_is_appended(op: Object) -> None:
    events = [surface_event(seq, "user/message", message("user", [text(str(seq))])) for seq in range(2)]
    events.append(surface_event(2, "user/message", message("user", [text("2")]), op))
    surface = turnlake.fold_surface(events, 4)
    assert surface.nodes == (0, 1, 2)
    assert surface.replacements == ()
    assert [fault.seq for fault in surface.faults] == [2]
    assert texts(turnlake.derive_messages(events, version=4)) == ["0", "1", "2"]


@pytest.mark.parametrize("op", [None, "prepend", {"op": "insert"}, []])
def test_an_event_without_a_place_is_no_node(op: Any) -> None:
    surface = turnlake.fold_surface([surface_event(0, "user/message", message("user", []), op)], 4)
    assert (surface.nodes, [fault.seq for fault in surface.faults]) == ((), [0])


@pytest.mark.parametrize("data", [None, [], "text", {"message": None}, {"message": [1]}, {}])
def test_an_event_without_a_message_gives_none(data: Any) -> None:
    projection = Projection(0)
    projection.see(surface_event(0, "assistant/message", data))
    assert (projection.messages, projection.surface.nodes) == ((), (0,))
    assert [fault.detail for fault in projection.surface.faults] == ["owns no message"]


def test_events_out_of_order_are_an_error() -> None:
    event = surface_event(3, "user/message", message("user", []))
    with pytest.raises(ValueError, match="event 3 comes after event 3"):
        turnlake.derive_messages([event, event], version=4)


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.update(role="x"),
        lambda message: message.__setitem__("role", "x"),
        lambda message: message.__delitem__("role"),
        lambda message: message.pop("role"),
        lambda message: message.popitem(),
        lambda message: message.clear(),
        lambda message: message.setdefault("x", 1),
        lambda message: message.__ior__({"x": 1}),
        lambda message: setattr(message, "x", 1),
        lambda message: message["source"].update(kind="x"),
        lambda message: message["content"].append(1),
        lambda message: message["content"].__setitem__(0, 1),
        lambda message: message["content"][0].update(text="x"),
    ],
)
def test_messages_can_not_be_changed(change: Callable[[Any], object]) -> None:
    log = read(Session(4).turn())
    before = canonical(log.derive_messages())
    with pytest.raises((TypeError, AttributeError)):
        change(log.derive_messages()[0])
    assert canonical(log.derive_messages()) == before


def test_messages_hold_nothing_of_the_events() -> None:
    log = read(Session(4).turn())
    before = canonical(log.derive_messages())
    for event in log.events:
        event["data"].clear()
    assert canonical(log.derive_messages()) == before


def test_frozen_values_print_copy_and_travel() -> None:
    value = {"a": [1, {"b": [None, True, 1.5]}], "c": {"d": "\u00fc"}}
    frozen = freeze(value)
    assert json.loads(json.dumps(frozen)) == json.loads(orjson.dumps(frozen)) == value
    assert copy.copy(frozen) is copy.deepcopy(frozen) is freeze(frozen) is frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert type(frozen | {"x": 1}) is type(frozen.copy()) is dict
    assert isinstance(pickle.loads(pickle.dumps(frozen))["c"], Frozen)


def test_a_header_is_whole_and_says_no_more_than_it_has_to() -> None:
    config = {"provider": "p", "model": "m"}
    said = {"config": config, "system": "S", "tools": [{"name": "t"}], "adapterDefaults": {"maxTokens": True}}
    unsaid = {"config": config, "system": "", "tools": [], "adapterDefaults": {"maxTokens": False}, "other": 1}
    headers = [{"type": "request/header", "seq": n, "data": {"header": one}} for n, one in enumerate((said, unsaid))]
    assert canonical(turnlake.fold_request_header(headers[:1])) == canonical(said)
    assert turnlake.fold_request_header(headers) == {"config": config}
    assert turnlake.fold_request_header([]) is None


def test_a_context_carries_nothing_over() -> None:
    data = [{"provider": "p", "model": "m", "contextWindow": 10}, {"provider": "p", "model": "n"}]
    events = [{"type": "request/context", "seq": n, "data": one} for n, one in enumerate(data)]
    assert turnlake.fold_request_context(events) == data[1]
    assert turnlake.fold_request_context([]) is None


def open_calls(version: int) -> Session:
    """A turn that died with one call started and one not."""
    session = Session(version).open_step()
    session.assistant("", [("c1", "bash", "{}"), ("c2", "bash", "{}")])
    session.call("c1")
    return session


@pytest.mark.parametrize("version", VERSIONS)
def test_closers_of_an_open_turn(version: int) -> None:
    log = read(open_calls(version))
    made = turnlake.closers(log.events, version)
    assert [event["type"] for event in made] == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert [event["seq"] for event in made] == [len(log.events) + n for n in range(4)]
    assert {event["time"] for event in made} == {log.events[-1]["time"]}
    session = open_calls(version)
    for event in made:
        session.line(json.loads(json.dumps(event)), 1)
    assert read(session).verdict.verdict == "clean", "the harness accepts its own closers"


def test_closers_of_a_fork_have_texts_that_nobody_told() -> None:
    made = turnlake.closers(read(open_calls(4)).events, 4, cause="forked")
    assert [event["data"]["message"]["content"][0]["text"] for event in made[:2]] == [None, None]
    assert made[0]["data"]["message"]["id"].startswith("forked-tool-result-c1-")
    assert made[-1]["data"]["reason"] == {"kind": "forked"}


def test_closers_answer_a_stream_that_broke_off() -> None:
    session = Session(0).open_step()
    session.packed(["He", "ll", "o"], [5, 7])
    made = turnlake.closers(read(session).events, 0)
    assert [event["type"] for event in made] == ["step/end", "turn/end"]
    assert made == read(session).projection.closers()
    assert made[0]["seq"] == 6


def test_since_format_4_only_a_result_of_the_step_answers() -> None:
    for version, kinds in ((3, ["step/end", "turn/end"]), (4, ["tool/result", "step/end", "turn/end"])):
        session = Session(version).open_step()
        session.assistant("", [("c1", "bash", "{}")])
        events = [*read(session).events]
        data = {"turn": 1, "step": 7, "message": {"source": {"kind": "tool", "callId": "c1"}}}
        events.append(surface_event(len(events), "tool/result", data))
        assert [event["type"] for event in turnlake.closers(events, version)] == kinds


def test_no_closers_without_an_open_turn() -> None:
    assert turnlake.closers([], 4) == ()
    assert turnlake.closers(read(Session(4).turn()).events, 4) == ()


def with_requests(version: int) -> Session:
    """A turn of two steps, the second of which asks twice, under another header than the first."""
    session = Session(version)
    session.turn_start()
    for step, tools in enumerate(([], [{"name": "bash"}])):
        session.step_start()
        if step == 0:
            session.user()
        system = {"system": "S"} if version < 3 else {}
        header = {"config": {"provider": "p", "model": "m"}, **system} | ({"tools": tools} if tools else {})
        session.add("request/header", {"header": header, "reason": "initial"})
        if step:
            failed = {"type": "finish", "reason": {"kind": "error", "failure": {"message": "m", "code": "SERVER"}}}
            if version < 2:
                session.chunk(failed)
            else:
                stream = [{"type": "chunk", "time": session.time, "chunk": failed}]
                session.add("assistant/attempt", session.place | {"stream": stream})
        session.assistant(f"answer {step}")
        session.step_end()
    session.turn_end()
    return session


@pytest.mark.parametrize("version", VERSIONS)
def test_the_request_of_an_attempt(version: int) -> None:
    log = read(with_requests(version))
    assert log.verdict.verdict == "clean"
    assert [one.place for one in attempts(log)] == ["1.1.1", "1.2.1", "1.2.2"]
    first, failed, last = (turnlake.project_attempt_request(log, one) for one in attempts(log))
    assert texts(first.messages) == ["Hi"]
    assert texts(failed.messages) == texts(last.messages) == ["Hi", "answer 0"]
    assert (first.tools, failed.tools) == ((), ({"name": "bash"},))
    assert first.system == ("S" if version < 3 else None)
    assert first.config == {"provider": "p", "model": "m"}
    assert first.is_exact
    assert turnlake.project_attempt_request(log, (1, 2, 1)) == failed
    assert turnlake.project_attempt_request(log, "s1/1.2.2") == last
    assert turnlake.project_attempt_request(log, "s1~0123abcd/1.2.2") == last


@pytest.mark.parametrize("attempt", [(1, 1, 2), "s1/1.3.1", "s1/1.1.1/b1", "s2/1.1.1", "s1/compaction/1", "1.1.1", ""])
def test_an_attempt_that_is_not_there(attempt: Any) -> None:
    with pytest.raises(UsageError):
        turnlake.project_attempt_request(read(with_requests(4)), attempt)


def test_a_request_without_header_is_unknown_and_not_empty() -> None:
    request = turnlake.project_attempt_request(read(Session(4).turn()), (1, 1, 1))
    assert (request.config, request.tools, request.system) == (None, None, None)


def test_a_request_that_nothing_answered() -> None:
    log = read(Session(4).open_step())
    request = turnlake.project_attempt_request(log, (1, 1, 1))
    assert (texts(request.messages), request.attempt.before_seq) == (["Hi"], None)


def test_a_retry_behind_its_step_is_no_call_of_it() -> None:
    session = Session(0).open_step()
    session.step_end()
    retry = session.place | {"retryId": "r", "retry": 1}
    failed = session.add("llm/retry", retry | {"failure": {"message": "busy", "code": "SERVER"}})
    session.add("llm/retry-started", retry)
    [one] = attempts(read(session))
    assert (one.place, one.before_seq) == ("1.1.1", failed)


def test_a_call_behind_a_bad_record_is_shown_but_not_exact() -> None:
    session = Session(4).turn()
    session.line(b"{broken")
    session.open_step()
    session.assistant("lost")
    log = read(session)
    assert log.verdict.verdict == "removable_tail"
    assert texts(log.derive_messages()) == ["Hi", "Hello"]
    request = turnlake.project_attempt_request(log, (2, 1, 1))
    assert (texts(request.messages), request.is_exact) == (["Hi", "Hello", "Hi"], False)


def test_of_two_writers_the_later_one_counts() -> None:
    session = Session(4).turn().turn("old", "gone")
    second = Session(4).turn().turn("new", "stays")
    for line in second.lines[7:]:
        session.line(line)
    log = read(session)
    assert log.verdict.verdict == "refused"
    assert texts(log.derive_messages()) == ["Hi", "Hello", "new", "stays"]
    assert [one.place for one in attempts(log)] == ["1.1.1", "2.1.1", "2.1.1/b1"]
    assert texts(turnlake.project_attempt_request(log, "s1/2.1.1").messages) == ["Hi", "Hello", "old"]
    assert texts(turnlake.project_attempt_request(log, "s1/2.1.1/b1").messages) == ["Hi", "Hello", "new"]


def test_the_tutorial_dialect() -> None:
    rows = [
        {"type": "turn/start", "seq": 0, "data": {"turn": 1}},
        {"type": "user/message", "seq": 1, "data": {"role": "user", "content": "Hi"}},
        {
            "type": "assistant/message",
            "seq": 2,
            "data": {"turn": 1, "step": 1, "content": [{"type": "tool_use", "id": "c", "name": "bash", "input": {}}]},
        },
        {"type": "tool/call", "seq": 3, "data": {"turn": 1, "step": 1, "callId": "c", "name": "bash"}},
        {
            "type": "tool/result",
            "seq": 4,
            "sourceEventSeqs": [3],
            "data": {"turn": 1, "message": {"role": "tool", "toolName": "bash", "content": "done", "isError": False}},
        },
    ]
    log = read_bytes(b"".join(dumps(row) + b"\n" for row in rows), "trace.jsonl")
    assert (log.verdict.dialect, log.version) == ("tutorial", 0)
    messages = log.derive_messages()
    assert messages == turnlake.derive_messages(log.events, version=None)
    assert [one["role"] for one in messages] == ["user", "assistant", "user"]
    assert texts(messages) == ["Hi", "", "done"]
    assert messages[2]["content"][0]["toolCallId"] == "c"
    assert turnlake.normalised_messages(messages)[2]["toolCallId"] == "c"
    assert [event["type"] for event in log.projection.closers()] == ["turn/end"]


def test_a_lone_surrogate_prints_as_the_escape_it_was() -> None:
    session = Session(4).turn("\ud83d")
    messages = read(session).derive_messages()
    assert json.loads(json.dumps(messages))[0]["content"][0]["text"] == "\ud83d"
