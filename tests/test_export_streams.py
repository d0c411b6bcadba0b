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
SPLIT = ["the key is s", "k-testte", "", "sttest", "test, ", "done"]
WITHOUT = ["the key is [REDACTED:ai-key]", "", "", "", ", ", "done"]


def redacted(tmp_path: Path, session: Session) -> list[dict[str, Any]]:
    """The rows of chunk_runs of a redacted export of a lake with this session."""
    write(tmp_path / "root", session.raw, file_name(session.version))
    assert main(["build", str(tmp_path / "root"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    manifest = export(tmp_path / "lake", tmp_path / "out", redact=True)
    for path in (tmp_path / "out").rglob("*.parquet"):
        assert SECRET not in str(pq.read_table(path).to_pylist())
    assert manifest["redacted"]["raw.chunk_runs"]["ai-key"] >= 1
    files = sorted((tmp_path / "out" / "raw" / "chunk_runs").glob("*.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def texts(runs: list[dict[str, Any]], chunk_type: str = "text-delta") -> list[str]:
    return [text for row in runs if row["chunk_type"] == chunk_type for text in row["texts"]]


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
    [end] = [json.loads(row["chunk"]) for row in runs if row["chunk_type"] == "block-end"]
    assert end["block"]["text"] == "".join(WITHOUT)


def test_in_the_stream_of_an_event(tmp_path: Path) -> None:
    session = Session(4)
    session.open_step()
    chunks = [{"type": "reasoning-delta", "index": 0, "text": text} for text in SPLIT]
    stream = [{"type": "chunk", "time": session.time, "chunk": chunk} for chunk in chunks]
    session.add("assistant/attempt", {**session.place, "stream": stream})
    assert texts(redacted(tmp_path, session), "reasoning-delta") == WITHOUT


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
    assert texts(redacted(tmp_path, session)) == ["cut of", "[REDACTED:ai-key]"]


@pytest.mark.parametrize("split", [1, 12, 20, 30])
def test_in_arguments_that_are_json(tmp_path: Path, split: int) -> None:
    session = Session(0)
    session.open_step()
    arguments = json.dumps({"command": f"export KEY={SECRET}\n"})
    for part in (arguments[:split], arguments[split:]):
        session.chunk({"type": "tool-call-delta", "index": 0, "id": "c", "name": "bash", "argumentsDelta": part})
    session.packed([SECRET, "b", "c"])
    joined = [row for row in redacted(tmp_path, session) if row["chunk_type"] == "tool-call-delta"]
    shown = "".join(text or "" for row in joined for text in row["texts"] or [])
    assert shown in ("", json.dumps({"command": "export KEY=[REDACTED:ai-key]\n"}))


def test_what_else_holds_a_split_secret_is_withheld(tmp_path: Path) -> None:
    session = Session(0)
    session.open_step()
    for text in SPLIT:
        session.add(
            "assistant/chunk", {**session.place, "chunk": {"type": "text-delta", "index": 0, "text": text, "x": 1}}
        )
    runs = redacted(tmp_path, session)
    assert texts(runs) == WITHOUT
    assert [row["chunk"] is None for row in runs] == [True] * 5 + [False]
