"""Secrets that a model wrote in several deltas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from logs import Session, file_name, write
from turnlake.cli import main
from turnlake.export.copy import export

SECRET = "sk-testtesttesttest"
MARK = "[REDACTED:ai-key]"
SPLIT = ["the key is s", "k-testte", "", "sttest", "test, ", "done"]
WITHOUT = ["the key is [REDACTED:ai-key]", "", "", "", ", ", "done"]


def redacted(tmp_path: Path, session: Session, table: str = "chunk_runs") -> list[dict[str, Any]]:
    """The rows of a table of a redacted export of a lake with this session."""
    write(tmp_path / "root", session.raw, file_name(session.version))
    assert main(["build", str(tmp_path / "root"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    manifest = export(tmp_path / "lake", tmp_path / "out", redact=True)
    for path in (tmp_path / "out").rglob("*.parquet"):
        assert SECRET not in str(pq.read_table(path).to_pylist())
    assert manifest["redacted"][f"raw.{table}"]["ai-key"] >= 1
    files = sorted((tmp_path / "out" / "raw" / table).glob("*.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def texts(runs: list[dict[str, Any]], chunk_type: str = "text-delta") -> list[str]:
    data = [json.loads(row["payload"]) for row in runs if row["chunk_type"] == chunk_type]
    return [text for one in data for text in texts_of(one)]


def texts_of(run: dict[str, Any]) -> list[str]:
    """The texts of the data of a line, or of a record of a stream."""
    chunk = run.get("chunk", {})
    return run.get("texts") or run.get("args") or [chunk.get("text", chunk.get("argumentsDelta"))]


def test_in_a_packed_row(tmp_path: Path) -> None:
    session = Session(0)
    session.open_step()
    session.packed(SPLIT)
    assert texts(redacted(tmp_path, session)) == WITHOUT


def test_over_rows_of_every_form(tmp_path: Path) -> None:
    session = Session(1)
    session.open_step()
    session.chunk({"type": "block-start", "index": 0, "blockType": "text"})
    session.chunk({"type": "text-delta", "index": 0, "text": SPLIT[0]})
    session.packed(SPLIT[1:5])
    session.chunk({"type": "text-delta", "index": 0, "text": SPLIT[5]})
    session.chunk({"type": "block-end", "index": 0, "block": {"type": "text", "text": "".join(SPLIT)}})
    runs = redacted(tmp_path, session)
    assert texts(runs) == WITHOUT
    [end] = [json.loads(row["payload"]) for row in runs if row["chunk_type"] == "block-end"]
    assert end["chunk"]["block"]["text"] == "".join(WITHOUT)


def stream_of(session: Session, *, packed: bool) -> list[dict[str, Any]]:
    """SPLIT as reasoning, in two runs or chunk by chunk, and a chunk behind them."""
    if packed:
        runs = [{"index": 0, "dt": [1] * (len(some) - 1), "texts": some} for some in (SPLIT[:3], SPLIT[3:])]
        records: list[dict[str, Any]] = [{"type": "reasoning-chunks", "time0": session.time} | run for run in runs]
    else:
        chunks = [{"type": "reasoning-delta", "index": 0, "text": text} for text in SPLIT]
        records = [{"type": "chunk", "time": session.time, "chunk": chunk} for chunk in chunks]
    end = {"type": "block-end", "index": 0, "block": {"type": "reasoning", "text": "".join(SPLIT)}}
    return [*records, {"type": "chunk", "time": session.time, "chunk": end}]


@pytest.mark.parametrize("packed", [True, False])
def test_in_the_stream_of_an_event(tmp_path: Path, packed: bool) -> None:
    session = Session(4)
    session.open_step()
    stream = stream_of(session, packed=packed)
    session.add("assistant/attempt", {**session.place, "stream": stream})
    [row] = [row for row in redacted(tmp_path, session, "events") if row["type"] == "assistant/attempt"]
    *records, end = json.loads(row["stream"])
    assert [text for record in records for text in texts_of(record)] == WITHOUT
    assert [record.get("dt") for record in records] == [record.get("dt") for record in stream[:-1]]
    assert end["chunk"]["block"]["text"] == "".join(WITHOUT)
    assert json.loads(row["payload"]) == {**session.place, "stream": []}


def test_in_a_stream_that_stays_in_the_payload(tmp_path: Path) -> None:
    """Half a surrogate pair somewhere in it keeps the stream in the payload, too."""
    session = Session(4)
    session.open_step()
    session.add("assistant/attempt", {**session.place, "stream": stream_of(session, packed=True), "x": "\ud83d"})
    [row] = [row for row in redacted(tmp_path, session, "events") if row["type"] == "assistant/attempt"]
    for text in (row["payload"], row["sql_payload"]):
        records = json.loads(text)["stream"] or json.loads(row["stream"])
        assert [text for record in records[:-1] for text in texts_of(record)] == WITHOUT
    assert row["raw_line"] is None


def test_streams_of_two_events_are_kept_apart(tmp_path: Path) -> None:
    session = Session(4)
    session.open_step()
    halves = [SECRET[:8], SECRET[8:]]
    for half in (*halves, SECRET):
        chunk = {"type": "text-delta", "index": 0, "text": half}
        record = {"type": "chunk", "time": session.time, "chunk": chunk}
        session.add("assistant/attempt", {**session.place, "stream": [record]})
    rows = redacted(tmp_path, session, "events")
    streams = [json.loads(row["stream"]) for row in rows if row["type"] == "assistant/attempt"]
    assert [texts_of(record) for stream in streams for record in stream] == [*([half] for half in halves), [MARK]]


def test_in_what_follows_its_name_in_another_delta(tmp_path: Path) -> None:
    """The secret is whole in one delta, and shows by what stands before it in another."""
    session = Session(0)
    session.open_step()
    session.packed(['password = "', "xK9vLmQ2", '" is it, and ', SECRET])
    assert texts(redacted(tmp_path, session)) == ['password = "', "[REDACTED:assigned]", '" is it, and ', MARK]


def test_blocks_that_take_turns_are_kept_apart(tmp_path: Path) -> None:
    session = Session(0)
    session.open_step()
    for text in SPLIT:
        session.chunk({"type": "text-delta", "index": 0, "text": text})
        session.chunk({"type": "text-delta", "index": 1, "text": "a"})
    runs = redacted(tmp_path, session)
    assert texts([row for row in runs if row["block_index"] == 0]) == WITHOUT
    assert texts([row for row in runs if row["block_index"] == 1]) == ["a"] * len(SPLIT)


def test_a_retried_block_begins_anew(tmp_path: Path) -> None:
    """The end of the first try is no beginning of the second's secret."""
    session = Session(0)
    session.open_step()
    for text in ("cut of", SECRET):
        session.chunk({"type": "block-start", "index": 0, "blockType": "text"})
        session.chunk({"type": "text-delta", "index": 0, "text": text})
    assert texts(redacted(tmp_path, session)) == ["cut of", MARK]


@pytest.mark.parametrize("split", [1, 12, 20, 30])
def test_in_arguments_that_are_json(tmp_path: Path, split: int) -> None:
    session = Session(0)
    session.open_step()
    arguments = json.dumps({"command": f"export KEY={SECRET}\n"})
    for part in (arguments[:split], arguments[split:]):
        session.chunk({"type": "tool-call-delta", "index": 0, "id": "c", "name": "bash", "argumentsDelta": part})
    session.packed([SECRET, "b", "c"])
    shown = "".join(texts(redacted(tmp_path, session), "tool-call-delta"))
    assert shown in ("", json.dumps({"command": "export KEY=[REDACTED:ai-key]\n"}))


def test_what_else_a_chunk_holds_stays(tmp_path: Path) -> None:
    session = Session(0)
    session.open_step()
    for text in SPLIT:
        session.add(
            "assistant/chunk", {**session.place, "chunk": {"type": "text-delta", "index": 0, "text": text, "x": 1}}
        )
    runs = redacted(tmp_path, session)
    assert texts(runs) == WITHOUT
    assert {json.loads(row["payload"])["chunk"]["x"] for row in runs} == {1}
    assert not any(row["raw_line"] for row in runs[:5])
