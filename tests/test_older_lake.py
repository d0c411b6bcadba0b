"""A lake that an earlier turnlake made, in the format before: what its logs said is in the lake that is made of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sessions_of_format1 import sessions, write_sessions
from turnlake.api import connect
from turnlake.cli import main
from turnlake.lake.state import Lake
from turnlake.rows import replay_format1
from turnlake.rows.tables import LAKE_FORMAT

FIXTURE = Path(__file__).parent / "fixtures" / "lake-format-1"
FOLDERS = sorted(sessions())

Row = dict[str, Any]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A copy of the older lake."""
    shutil.copytree(FIXTURE, tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A lake made of the very logs."""
    write_sessions(tmp_path / "logs")
    build(tmp_path / "fresh", f"logs={tmp_path / 'logs'}")
    return tmp_path / "fresh"


def build(lake: Path, source: str) -> Row:
    """One build; its line in the loads."""
    assert main(["build", source, "--lake", str(lake), "--workers", "1", "-q"]) == 0
    load: Row = json.loads((lake / "loads.jsonl").read_text().splitlines()[-1])
    return load


def whys(load: Row) -> dict[str, str]:
    """Why each log was read, by the folder it lies in."""
    return {Path(read["path"]).parent.name: read["why"] for read in load["read"]}


def rows(lake: Path, table: str, *, without: str = "") -> list[str]:
    """The rows of a raw table as text, in one order; without that column."""
    state = Lake(lake).current()
    assert state is not None
    found = [row for path in state.part_files(table) for row in pq.read_table(path).to_pylist()]
    return sorted(json.dumps({name: value for name, value in row.items() if name != without}) for row in found)


def told(lake: Path) -> dict[str, list[Any]]:
    """What the models make of the logs: messages, sums of tokens, verdicts."""
    with connect(lake) as db:
        return {
            query: db.execute(query).fetchall()
            for query in (
                "select * from marts.messages order by all",
                "select sum(input_tokens), sum(output_tokens), count(*) from marts.attempts",
                "select path, verdict, event_count, accepted_event_count from raw.logs order by all",
                "select * from raw.chunks order by all",
            )
        }


def test_the_fixture_is_of_format_1() -> None:
    assert (FIXTURE / "format").read_text() == "1\n" != f"{LAKE_FORMAT}\n"
    parts = list(FIXTURE.glob(".states/*/chunk_runs/part-*.parquet"))
    assert parts
    assert all(map(replay_format1.is_format1, parts))


@pytest.mark.parametrize("name", ["logs", "other"], ids=["logs gone", "source not named"])
def test_rows_of_logs_that_are_gone_are_made_of_the_older_ones(
    name: str, lake: Path, fresh: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    build(lake, f"{name}={tmp_path / 'empty'}")
    assert (lake / "format").read_text() == f"{LAKE_FORMAT}\n"
    for table in ("events", "chunk_runs", "findings"):
        # In which order members stood in a line that is not plain was not kept in format 1.
        assert rows(lake, table, without="raw_line") == rows(fresh, table, without="raw_line"), table
    assert told(lake) == told(fresh)
    assert build(lake, f"{name}={tmp_path / 'empty'}")["logs_read"] == 0


def test_logs_that_are_there_are_read_anew(lake: Path, fresh: Path, tmp_path: Path) -> None:
    load = build(lake, f"logs={tmp_path / 'logs'}")
    assert (sorted(whys(load)), load["logs_read"]) == (FOLDERS, len(FOLDERS))
    assert (lake / "format").read_text() == f"{LAKE_FORMAT}\n"
    for table in ("logs", "events", "chunk_runs", "findings"):
        assert rows(lake, table) == rows(fresh, table), table
    assert told(lake) == told(fresh)
