"""The short way from a line to its row gives just what the general way gives, whatever the line."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import Drawn
from logs import TABLES, VERSIONS, Session, Stored, dumps, file_name, part_files, write
from turnlake.format.record import Record
from turnlake.format.scan import Scan
from turnlake.lake import convert as convert_module
from turnlake.lake.convert import Batch, convert
from turnlake.rows.writer import PartRows
from turnlake.rows.plain import LogRows
from turnlake.sources.discover import find_logs
from turnlake.sources.logfile import LogFile
from turnlake.sources.source import parse_source

PART = "p.parquet"
# What may stand where the harness writes a number, a string or a list.
ODD = (True, False, None, 1.0, -1, 2**53, 2**64, -(2**63), 0.5, "", "true", "\ud800", [], [1], {}, {"type": "usage"})


@contextmanager
def only_the_general_way() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert_module, "LogRows", functools.partial(LogRows, is_short_way=False))
        patch.setattr(Scan, "_plain_event", lambda *_: None)
        yield


def assert_same(logs: tuple[LogFile, ...], folder: Path) -> None:
    """Both ways give the same rows, findings, and rows of `logs`, with their verdicts."""
    short = convert(Batch(PART, logs), folder / "short")
    with only_the_general_way():
        general = convert(Batch(PART, logs), folder / "general")
    assert short == general
    for table in TABLES:
        pairs = zip(*(part_files(folder / way, table, PART) for way in ("short", "general")), strict=True)
        for one, other in pairs:
            assert pq.read_table(one).equals(pq.read_table(other)), table


def assert_same_of(data: bytes, version: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "root", data, file_name(version))
        assert_same(find_logs([parse_source(str(path))]).logs, Path(folder))


def streamed(version: int = 0) -> Session:
    """A log of v0 or v1 with chunks of every kind, as the harness writes them."""
    session = Session(version).open_step()
    place = session.place
    session.chunk({"type": "block-start", "index": 0, "blockType": "text"})
    session.packed(["", "Hé", "llo", ""], [5, 0, 7])
    session.time += 20
    session.chunk({"type": "text-delta", "index": 0, "text": "!"})
    session.chunk({"type": "block-end", "index": 0, "block": {"type": "text", "text": "Héllo!"}})
    for name in ({"name": "bash"}, {}):
        data = {**place, "index": 1, "dt": [3], "id": "c1", **name, "args": ["", "{}"]}
        session.line({"type": "tool-call-chunks", "seq0": session.seq, "time0": session.time, "data": data}, 2)
        session.time += 20
    session.chunk({"type": "usage", "usage": {"inputTokens": 8, "outputTokens": 2}})
    session.chunk({"type": "finish", "reason": {"kind": "tool-calls"}})
    session.assistant(calls=[("c1", "bash", "{}")])
    session.call()
    session.result()
    session.step_end()
    session.turn_end()
    return session


def test_plain_chunks_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    general: set[str] = set()
    add = PartRows.add

    def seen(self: PartRows, record: Record, log_id: str) -> None:
        if record.run is not None:
            general.add(record.run.chunk_type if record.run.chunk else "packed")
        add(self, record, log_id)

    monkeypatch.setattr(PartRows, "add", seen)
    stored = Stored(streamed().raw, file_name(0))
    assert {row["form"] for row in stored.runs} == {"packed", "single"}
    # A delta that stands alone is rare, and left to the general way.
    assert general == {"text-delta"}


def test_plain_events_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    event = Scan._event

    def seen(self: Scan, value: Any, kind: str) -> Any:
        kinds.append(kind)
        return event(self, value, kind)

    monkeypatch.setattr(Scan, "_event", seen)
    session = streamed()
    Stored(session.raw, file_name(0))
    assert {"step/start", "user/message", "tool/call", "tool/result", "step/end"}.isdisjoint(kinds)
    assert "turn/end" in kinds  # whose payload is looked at by itself


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_agree_on_what_the_harness_writes(version: int) -> None:
    assert_same_of(Session(version).turn().turn_with_call().raw, version)
    if version < 2:
        assert_same_of(streamed(version).raw, version)


@given(st.integers(0, 2**32), st.sampled_from(VERSIONS))
def test_both_ways_agree_on_drawn_logs(seed: int, version: int) -> None:
    drawn = Drawn(Random(seed), version, "s1")
    drawn.play()
    assert_same_of(drawn.stored(), version)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and item in a value: what holds it, and by which key."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(inner)


@given(st.data())
def test_both_ways_agree_on_a_line_with_one_thing_changed(data: st.DataObject) -> None:
    session = streamed(data.draw(st.sampled_from((0, 1))))
    at = data.draw(st.integers(1, len(session.lines) - 1))
    line = orjson.loads(session.lines[at])
    holder, key = data.draw(st.sampled_from(list(places(line))))
    match data.draw(st.sampled_from(("replace", "drop", "add", "turn round", "twice", "next"))):
        case "replace":
            holder[key] = data.draw(st.sampled_from(ODD))
        case "drop":
            del holder[key]
        case "add":
            line[data.draw(st.sampled_from(("ignorable", "surfaceOp", "more")))] = True
        case "turn round" if isinstance(holder, dict):
            line["data"] = dict(reversed(line["data"].items()))
        case "next" if type(holder[key]) is int:
            holder[key] += data.draw(st.integers(-2, 2))
    changed = dumps(line)
    if data.draw(st.booleans()):
        changed = changed.replace(b'"data":', b'"data":[true],"data": ', 1)
    session.lines[at] = changed
    assert_same_of(session.raw, session.version)


@given(st.data())
def test_both_ways_agree_on_a_log_with_one_byte_changed(data: st.DataObject) -> None:
    raw = bytearray(streamed().raw)
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b'0-9."]},x\n\x00\xff'))
    assert_same_of(bytes(raw), 0)


@given(st.data())
def test_both_ways_agree_on_lines_left_out_or_moved(data: st.DataObject) -> None:
    session = streamed()
    at, to = (data.draw(st.integers(1, len(session.lines) - 1)) for _ in range(2))
    line = session.lines.pop(at)
    if data.draw(st.booleans()):
        session.lines.insert(to, line)
    assert_same_of(session.raw, 0)


def test_both_ways_agree_on_the_sample(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parent.parent / "data" / "sample"
    assert_same(find_logs([parse_source(str(sample))]).logs, tmp_path)


def test_both_ways_agree_on_the_official_logs(corpus: Path, tmp_path: Path) -> None:
    assert_same(find_logs([parse_source(str(corpus))]).logs, tmp_path)
