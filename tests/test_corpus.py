"""The official logs: each is read as the official code reads it, and comes back from Parquet as it was."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from logs import part_rows
from official import PART, Official
from turnlake.findings import CODES
from turnlake.format.values import canonical
from turnlake.messages.log import Log, logical_events, read_log
from turnlake.rows.replay import stored_events

Row = dict[str, Any]


@pytest.fixture(scope="module")
def logs(official: Official) -> dict[str, Log]:
    return {name: read_log(official.file(name)) for name in official.cases}


@pytest.fixture(scope="module")
def expected(official: Official) -> dict[str, Row]:
    return official.expected


@pytest.fixture(scope="module")
def stored(official: Official) -> dict[str, tuple[Row, list[Row], list[Row]]]:
    """By case: the row of the log, its rows of events and of chunk_runs."""
    by_log: dict[str, tuple[Row, list[Row], list[Row]]] = {
        row["log_id"]: (row, [], []) for row in official.logs.values()
    }
    for place, table in enumerate(("events", "chunk_runs"), start=1):
        for row in part_rows(official.parts, table, PART):
            by_log[row["log_id"]][place].append(row)
    return {name: by_log[row["log_id"]] for name, row in official.logs.items()}


def digest(events: list[str]) -> str:
    return hashlib.sha256("\n".join(events).encode("utf-8", "surrogatepass")).hexdigest()


def test_there_are_logs_of_every_format_and_form(official: Official) -> None:
    index = list(official.cases.values())
    assert {case["format"] for case in index} >= {0, 1, 2, 3, 4}
    assert {case["kind"] for case in index} == {"fixture", "run", "migrated", "edited", "container"}
    assert len(index) == len((official.corpus / "index.jsonl").read_text().splitlines()) > 400


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
        keys += [(row["branch"], row["seq"]) for row in runs]
        assert len(keys) == len(set(keys)), name
