"""What holds for every log: prefixes, rewrites in any order, and events that the model never sees."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlake
from counter import count
from drawn_families import write_family
from logs import VERSIONS, text
from turnlake.format.types import KNOWN_TYPES, MESSAGE_TYPES
from turnlake.messages.attempts import attempts
from turnlake.messages.derive import Projection
from turnlake.messages.log import Log, read_log
from turnlake.messages.surface import fold_surface

Object = dict[str, Any]
# An append, or a replacement of the range between two places of the surface.
STEPS = st.lists(st.none() | st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40)


def drawn_logs(seed: int) -> list[tuple[Log, bytes]]:
    """A drawn session and perhaps its child, read, with the bytes of their files."""
    with tempfile.TemporaryDirectory() as folder:
        return [(read_log(path), path.read_bytes()) for path in write_family(Path(folder), 1, seed, 5)]


@given(seed=st.integers(0, 10**6))
def test_a_prefix_is_the_log_cut_off_there(seed: int) -> None:
    for log, _ in drawn_logs(seed):
        if log.verdict.verdict == "refused":
            continue
        asked = [*range(0, len(log.events), 3), None, len(log.events) // 2, 1]
        for upto in asked:
            events = [event for event in log.events if upto is None or event["seq"] < upto]
            assert log.derive_messages(upto) == turnlake.derive_messages(events, version=log.version)
            assert log.projection.surface(upto) == fold_surface(events, log.version)
            assert log.projection.request_header(upto) == turnlake.fold_request_header(events)
            assert log.projection.request_context(upto) == turnlake.fold_request_context(events)


@given(seed=st.integers(0, 10**6))
def test_attempts_are_those_of_the_second_count(seed: int) -> None:
    for log, stored in drawn_logs(seed):
        calls = [call for call in count(stored).calls if call.kind == "model"]
        found = attempts(log)
        assert [(one.branch, one.turn, one.step, one.attempt) for one in found] == [
            (call.first.branch, call.turn, call.step, call.number) for call in calls
        ]
        told = [(one.before_seq, call.first.seq) for one, call in zip(found, calls, strict=True) if call.trace is None]
        assert all(mine == theirs for mine, theirs in told)
        for one in found:
            turnlake.project_attempt_request(log, one)


def event_of(seq: int, version: int, op: Any, words: str) -> Object:
    data = {"id": f"u{seq}", "role": "user", "content": [text(words)], "source": {"kind": "user"}}
    return {"type": "user/message", "seq": seq, "time": seq, "surfaceOp": op, "data": data}


def interleaved(steps: list[tuple[int, int] | None], version: int) -> tuple[list[Object], list[list[int]]]:
    """Events of those appends and legal replacements, and the surface after each, spelt out node by node."""
    events: list[Object] = []
    surfaces: list[list[int]] = [[]]
    names = ("startSeq", "endSeq") if version >= 3 else ("start", "end")
    for seq, step in enumerate(steps):
        nodes = surfaces[-1]
        if step is None or not nodes:
            op: Any = "append"
            after = [*nodes, seq]
        else:
            low, high = sorted(place % len(nodes) for place in step)
            op = {"op": "replace", names[0]: nodes[low], names[1]: nodes[high]}
            after = []
            for place, node in enumerate(nodes):
                if not low <= place <= high:
                    after.append(node)
                elif place == low:
                    after.append(seq)
        events.append(event_of(seq, version, op, f"text {seq}"))
        surfaces.append(after)
    return events, surfaces


@given(steps=STEPS, version=st.sampled_from(VERSIONS))
def test_the_fold_is_the_naive_one(steps: list[tuple[int, int] | None], version: int) -> None:
    events, surfaces = interleaved(steps, version)
    projection = Projection(version)
    for event, nodes in zip(events, surfaces[1:], strict=True):
        projection.see(event)
        assert list(projection.surface.nodes) == nodes
        assert [message["id"] for message in projection.messages] == [f"u{seq}" for seq in nodes]
    surface = fold_surface(events, version)
    assert surface.faults == ()
    shadowed = [seq for one in surface.replacements for seq in one.shadowed]
    assert sorted([*shadowed, *surface.nodes]) == list(range(len(events)))


@pytest.mark.parametrize("version", VERSIONS)
@given(steps=STEPS, data=st.data())
def test_log_only_events_change_nothing(version: int, steps: list[tuple[int, int] | None], data: st.DataObject) -> None:
    events, _ = interleaved(steps, version)
    spread = [event | {"seq": 3 * event["seq"], "surfaceOp": tripled(event["surfaceOp"])} for event in events]
    silent = [*sorted(KNOWN_TYPES[version] - MESSAGE_TYPES[version] - {"image/offload"}), "plugin/own"]
    kinds = data.draw(st.lists(st.tuples(st.sampled_from(silent), st.integers(0, 50)), max_size=20))
    placed = {3 * place + 1: kind for kind, place in kinds}
    more = [
        {"type": kind, "seq": seq, "time": 0, "data": {"turn": 1, "message": {"content": []}}, "surfaceOp": "append"}
        for seq, kind in placed.items()
    ]
    mixed = sorted([*spread, *more], key=lambda event: event["seq"])
    assert turnlake.derive_messages(mixed, version=version) == turnlake.derive_messages(spread, version=version)
    assert fold_surface(mixed, version) == fold_surface(spread, version)


def tripled(op: Any) -> Any:
    if op == "append":
        return op
    return {key: value if key == "op" else 3 * value for key, value in op.items()}
