"""The official logs: each is read as the official code reads it, and comes back from Parquet as it was."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from logs import TABLES
from turnlake.events.reader import Log, logical_events, read_log
from turnlake.events.values import canonical
from turnlake.findings import CODES
from turnlake.logs.discover import find_logs
from turnlake.logs.source import parse_source
from turnlake.parquet.convert import Batch, convert
from turnlake.parquet.replay import stored_events

Row = dict[str, Any]


@pytest.fixture(scope="module")
def index(corpus: Path) -> list[Row]:
    return [json.loads(line) for line in (corpus / "index.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def logs(corpus: Path, index: list[Row]) -> dict[str, Log]:
    return {case["name"]: read_log(corpus / case["name"] / case["file"]) for case in index}


@pytest.fixture(scope="module")
def expected(corpus: Path, index: list[Row]) -> dict[str, Row]:
    return {case["name"]: json.loads((corpus / case["name"] / "expected.json").read_text()) for case in index}


@pytest.fixture(scope="module")
def stored(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Row, list[Row], list[Row]]]:
    """By folder: the row of the log, its rows of events and of chunk_runs."""
    parts = tmp_path_factory.mktemp("parts")
    for table in TABLES:
        (parts / table).mkdir()
    found = find_logs([parse_source(str(corpus))]).logs
    rows = {one.log_id: one.row for one in convert(Batch("p.parquet", found), parts)}
    by_log: dict[str, dict[str, list[Row]]] = {table: defaultdict(list) for table in TABLES}
    for table in TABLES:
        for row in pq.read_table(parts / table / "p.parquet").to_pylist():
            by_log[table][row["log_id"]].append(row)
    return {
        log.folder: (row, by_log["events"][log.log_id], by_log["chunk_runs"][log.log_id])
        for log in found
        if (row := rows[log.log_id]) is not None
    }


def digest(events: list[str]) -> str:
    return hashlib.sha256("\n".join(events).encode("utf-8", "surrogatepass")).hexdigest()


def test_there_are_logs_of_every_format_and_form(index: list[Row]) -> None:
    assert {case["format"] for case in index} >= {0, 1, 2, 3, 4}
    assert {case["kind"] for case in index} == {"fixture", "run", "migrated", "edited", "container"}
    assert len({case["name"] for case in index}) == len(index) > 400


def test_the_same_logs_are_refused(logs: dict[str, Log], expected: dict[str, Row]) -> None:
    disagree = {
        name: (log.verdict.verdict, log.verdict.reason, expected[name].get("rejected"))
        for name, log in logs.items()
        if (log.verdict.verdict == "refused") is not ("rejected" in expected[name])
    }
    assert disagree == {}


def test_what_is_refused_has_a_finding_that_says_why(logs: dict[str, Log]) -> None:
    silent = [
        name
        for name, log in logs.items()
        if log.verdict.verdict == "refused"
        and not any((finding.severity or CODES[finding.code].severity) == "error" for finding in log.findings)
    ]
    assert silent == []


def test_the_events_are_equal(logs: dict[str, Log], expected: dict[str, Row]) -> None:
    disagree = []
    for name, answer in expected.items():
        if "rejected" in answer or logs[name].verdict.verdict == "refused":
            continue
        events = [canonical(event) for event in logs[name].events]
        if (len(events), digest(events)) != (answer["eventCount"], answer["eventsSha256"]):
            disagree.append((name, len(events), answer["eventCount"]))
    assert disagree == []


def test_the_inherited_prefixes_are_equal(logs: dict[str, Log], expected: dict[str, Row]) -> None:
    disagree = {}
    for name, answer in expected.items():
        if "rejected" in answer:
            continue
        count = answer.get("inheritedEventCount", answer.get("meta", {}).get("seedLength") or 0)
        if logs[name].verdict.inherited_event_count != count:
            disagree[name] = (logs[name].verdict.inherited_event_count, count)
    assert disagree == {}


def test_clean_logs_have_no_grave_finding(logs: dict[str, Log]) -> None:
    graver = {
        name: finding
        for name, log in logs.items()
        if log.verdict.verdict == "clean"
        for finding in log.findings
        if finding.severity == "error"
    }
    assert graver == {}


def test_every_log_comes_back_from_parquet(
    logs: dict[str, Log], stored: dict[str, tuple[Row, list[Row], list[Row]]]
) -> None:
    assert stored.keys() == logs.keys()
    disagree = []
    for name, (row, events, runs) in stored.items():
        back = [canonical(event) for event in stored_events(row, events, runs)]
        if back != [canonical(event) for event in logical_events(logs[name].records)]:
            disagree.append(name)
    assert disagree == []


def test_every_line_is_the_header_a_row_or_a_finding(stored: dict[str, tuple[Row, list[Row], list[Row]]]) -> None:
    disagree = []
    for name, (row, events, runs) in stored.items():
        lines = len({one["line"] for one in (*events, *runs)})
        if row["is_read"] and lines + row["unread_line_count"] + (row["header"] is not None) != row["line_count"]:
            disagree.append(name)
    assert disagree == []


def test_rows_are_told_apart_by_branch_and_number(stored: dict[str, tuple[Row, list[Row], list[Row]]]) -> None:
    for name, (_, events, runs) in stored.items():
        keys = [(row["branch"], row["seq"]) for row in events]
        keys += [(row["branch"], row["seq"]) for row in runs if row["form"] != "stream"]
        assert len(keys) == len(set(keys)), name
