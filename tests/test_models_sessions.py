"""Sessions, the trees they form, the days on which they used something, and what no total holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from lakes import START_MS, Log, Row, built, rows
from turnlake.api import connect
from turnlake.cli import main

PRICED = {"provider": "deepseek-official", "model": "deepseek-v4-pro"}
PRICE = Decimal("0.00001056")  # of a turn as lakes.Log writes it: 10 input and 2 output tokens
Query = Callable[[str], list[Row]]


@pytest.fixture
def case(cases: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], tuple[Row, Query]]:
    """Builds a case from its log files: what it expects, and queries of the lake."""

    def build(name: str) -> tuple[Row, Query]:
        assert main(["build", str(cases / name), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
        db = connect(tmp_path / "lake")
        request.addfinalizer(db.close)
        return json.loads((cases / name / "expected.json").read_text()), lambda query: rows(db, query)

    return build


def sessions(folder: Path, *logs: Log) -> dict[str, Row]:
    return {row["session_id"]: row for row in rows(built(folder, *logs), "from marts.sessions")}


# Own work


def test_prompts_are_those_a_person_wrote_and_the_last_title_counts(tmp_path: Path) -> None:
    log = Log(inherited_event_count=1)
    log.event("user/message", source_kind="user", surface_op="append")
    log.event("user/message", source_kind="user", surface_op="append")
    log.event("user/message", source_kind="plugin", surface_op="append")
    log.event("user/message", source_kind="user", surface_op="replace")
    log.event("session/title", label="first")
    log.event("session/title", label="second")
    session = sessions(tmp_path, log)["s1"]
    assert (session["human_prompt_count"], session["title"], session["event_count"]) == (1, "second", 6)


def test_cost_and_what_it_lacks(tmp_path: Path) -> None:
    empty, priced, unpriced, unknown = Log("empty"), Log("priced"), Log("unpriced"), Log("unknown")
    priced.turn(1, **PRICED)
    unpriced.turn(1)
    unknown.turn(1, input_tokens=None, output_tokens=None, **PRICED)
    found = sessions(tmp_path, empty, priced, unpriced, unknown)
    lacks = {
        name: (row["cost"], row["unknown_usage_attempt_count"], row["unpriced_attempt_count"])
        for name, row in found.items()
    }
    assert lacks == {
        "empty": (0, 0, 0),
        "priced": (PRICE, 0, 0),
        "unpriced": (None, 0, 1),
        "unknown": (None, 1, 0),
    }


def test_messages_are_exact_unless_something_stands_against_it(tmp_path: Path) -> None:
    logs = [
        Log("exact"),
        Log("tail", verdict="removable_tail", verdict_reason="bad_record"),
        Log("refused", verdict="refused", verdict_reason="corrupt"),
        Log("unknown", has_unknown_required_type=True),
        Log("replaced", dialect="tutorial"),
        Log("offloaded"),
    ]
    logs[4].finding("INV-06")
    logs[5].event("image/offload")
    old = Log("exact", log_id="old", superseded_by="log-exact", superseded_why="generation")
    old.finding("INV-06")
    found = {name: (row["is_exact"], row["inexact_reason"]) for name, row in sessions(tmp_path, *logs, old).items()}
    assert found == {
        "exact": (True, None),
        "tail": (True, None),
        "refused": (False, "corrupt"),
        "unknown": (False, "unknown_type"),
        "replaced": (False, "replacement"),
        "offloaded": (False, "image_offload"),
    }


def test_a_prefix_without_its_parent_is_in_no_total_and_named(tmp_path: Path) -> None:
    logs = [
        Log("parent"),
        Log("child", parent_session_id="parent", inherited_event_count=6),
        Log("orphan", parent_session_id="gone", inherited_event_count=6),
        Log("nameless", inherited_event_count=6),
        Log("fresh", parent_session_id="gone", origin="subagent"),
    ]
    for log in logs:
        log.turn(1, **PRICED)
        log.seq = 6
        log.turn(2, **PRICED)
    found = sessions(tmp_path, *logs)
    assert {name: row["orphan_prefix_event_count"] for name, row in found.items()} == {
        "parent": 0, "child": 0, "orphan": 6, "nameless": 6, "fresh": 0,
    }  # fmt: skip
    assert {name: row["total_tokens"] for name, row in found.items()} == {
        "parent": 24, "child": 12, "orphan": 12, "nameless": 12, "fresh": 24,
    }  # fmt: skip


# Trees


def test_a_tree_sums_a_session_and_its_subagents(tmp_path: Path) -> None:
    logs = {
        name: Log(name, parent_session_id=parent, origin=origin)
        for name, parent, origin in (
            ("top", None, None),
            ("child", "top", "subagent"),
            ("sibling", "top", "subagent"),
            ("grandchild", "child", "subagent"),
            ("fork", "top", None),
            ("of fork", "fork", "subagent"),
            ("orphan", "gone", "subagent"),
        )
    }
    for name, log in logs.items():
        if name != "sibling":
            log.turn(1, **({} if name == "grandchild" else PRICED), cache_read_tokens=3 if name == "top" else None)
    logs["child"].turn(2, input_tokens=None, output_tokens=None, **PRICED)
    found = sessions(tmp_path, *logs.values())
    columns = ("session_count", "input_tokens", "cache_read_tokens", "unknown_usage_attempt_count", "cost")
    trees = {name: tuple(row[f"tree_{column}"] for column in columns) for name, row in found.items()}
    with_cache = PRICE + Decimal("0.000000066")
    assert trees == {
        "top": (4, 30, 3, 1, with_cache + PRICE),
        "child": (2, 20, None, 1, PRICE),
        "sibling": (1, 0, 0, 0, 0),
        "grandchild": (1, 10, None, 0, None),
        "fork": (2, 20, None, 0, 2 * PRICE),
        "of fork": (1, 10, None, 0, PRICE),
        "orphan": (1, 10, None, 0, PRICE),
    }
    assert [found[name]["tree_unpriced_attempt_count"] for name in ("top", "child", "fork")] == [1, 1, 0]
    assert {name: row["root_session_id"] for name, row in found.items()} == {
        "top": "top", "child": "top", "sibling": "top", "grandchild": "top", "fork": "fork", "of fork": "fork",
        "orphan": "orphan",
    }  # fmt: skip


def test_sessions_in_a_circle_are_found_and_counted_once(tmp_path: Path) -> None:
    ring = [Log(f"ring {n}", parent_session_id=f"ring {(n + 1) % 3}", origin="subagent") for n in range(3)]
    own, hanging = Log("own", parent_session_id="own", origin="subagent"), Log("hanging", parent_session_id="ring 0")
    hanging.facts["origin"] = "subagent"
    for log in (*ring, own, hanging):
        log.turn(1)
    ring[1].finding("clock_went_back")
    db = built(tmp_path, *ring, own, hanging)
    found = rows(db, "from marts.findings where code = 'lineage_cycle' order by session_id")
    assert [row["session_id"] for row in found] == ["own", "ring 0", "ring 1", "ring 2"]
    assert [row["ordinal"] for row in found] == [1, 1, 2, 1]
    assert {row["severity"] for row in found} == {"warning"}
    trees = rows(db, "select session_id, tree_session_count as n, tree_total_tokens as tokens from marts.sessions")
    assert {row["session_id"]: (row["n"], row["tokens"]) for row in trees} == {
        "ring 0": (4, 48), "ring 1": (4, 48), "ring 2": (4, 48), "own": (1, 12), "hanging": (1, 12),
    }  # fmt: skip


# Days


def test_a_day_holds_each_kind_of_call_and_what_it_lacks(tmp_path: Path) -> None:
    log = Log(cwd="/w")
    log.turn(1, **PRICED)
    log.turn(2, "max-tokens", content_block_count=0, cache_read_tokens=30, **PRICED)
    log.turn(3, input_tokens=None, output_tokens=None, **PRICED)
    log.turn(4)
    log.event("compaction/start", related_id="k")
    log.event("compaction/summary", related_id="k", usage_place="compaction", input_tokens=1, output_tokens=0, **PRICED)
    days = rows(built(tmp_path, log), "from marts.usage_daily order by kind, model")
    assert [(row["kind"], row["model"], row["attempt_count"]) for row in days] == [
        ("compaction", "deepseek-v4-pro", 1),
        ("model", "deepseek-v4-pro", 3),
        ("model", "m1", 1),
    ]
    assert {(str(row["day"]), row["project"]) for row in days} == {("2026-08-25", "/w")}
    compaction, priced, unpriced = days
    cached = Decimal("0.00000066")
    assert (priced["cost"], priced["empty_max_tokens_cost"]) == (2 * PRICE + cached, PRICE + cached)
    assert (priced["unknown_usage_attempt_count"], priced["unpriced_attempt_count"]) == (1, 0)
    assert priced["cache_hit_ratio"] == 30 / 50
    assert [priced[f"empty_max_tokens_{name}"] for name in ("count", "input_tokens", "output_tokens")] == [1, 10, 2]
    assert priced["empty_max_tokens_total_tokens"] == 42
    assert (unpriced["cost"], unpriced["unpriced_attempt_count"], unpriced["empty_max_tokens_cost"]) == (None, 1, 0)
    assert (compaction["cost"], compaction["cache_hit_ratio"]) == (Decimal("0.00000066"), None)


def test_days_turns_and_sessions_add_up_to_the_attempts(tmp_path: Path) -> None:
    logs = [Log(f"s{number}") for number in range(3)]
    for log in logs:
        log.turn(1, **PRICED)
        log.turn(2, None, cache_read_tokens=4)
        log.event("compaction/summary", related_id="k", usage_place="compaction", input_tokens=7, output_tokens=1)
    db = built(tmp_path, *logs)
    columns = "sum(attempt_count)::bigint as n, sum(total_tokens)::bigint as tokens, sum(cost) as cost"
    [attempts] = rows(
        db, "select count(*) as n, sum(total_tokens)::bigint as tokens, sum(cost) as cost from marts.attempts"
    )
    for mart in ("sessions", "usage_daily"):
        assert rows(db, f"select {columns} from marts.{mart}") == [attempts]
    [of_turns] = rows(db, f"select {columns} from marts.turns")
    assert (attempts["n"] - of_turns["n"], attempts["tokens"] - of_turns["tokens"]) == (3, 24), "(no turn)"


# What no total holds


def test_calls_without_usage_are_listed(tmp_path: Path) -> None:
    log = Log(inherited_event_count=1)
    log.event("session/title-llm-request", **PRICED)
    log.event("session/title-llm-request", **PRICED)
    log.event("turn/start", 1)
    log.event("web/deepseek-search-llm-request", model="search-1")
    log.event("turn/end", 1, reason_kind="completed")
    log.event("web/deepseek-search-llm-request")
    found = rows(built(tmp_path, log), "from marts.unmetered_calls order by seq")
    assert [(row["seq"], row["kind"], row["turn"], row["provider"], row["model"]) for row in found] == [
        (1, "title", None, "deepseek-official", "deepseek-v4-pro"),
        (3, "web_search", 1, None, "search-1"),
        (5, "web_search", None, None, None),
    ]


def test_projection_checks_are_empty_and_typed(tmp_path: Path) -> None:
    db = built(tmp_path, Log())
    assert rows(db, "from marts.projection_checks") == []
    types = {row["column_type"] for row in rows(db, "describe marts.projection_checks")}
    assert types == {"VARCHAR", "BOOLEAN", "BIGINT"}


# Cases from public reports


def test_a_subagent_rolls_up_and_a_fork_does_not(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S02")
    found = {row["session_id"]: row for row in query("from marts.sessions")}
    parent = found["p1"]
    rolled_up = {"input": parent["tree_input_tokens"], "output": parent["tree_output_tokens"]}
    assert rolled_up == expected["rollup_p1_with_subagents"]
    assert (parent["tree_session_count"], found["k1"]["root_session_id"], found["c1"]["root_session_id"]) == (
        2,
        "p1",
        "c1",
    )
    for name, numbers in expected["by_session"].items():
        own = {"input": found[name]["input_tokens"], "output": found[name]["output_tokens"]}
        assert own == {key: numbers[key] for key in own}
        assert found[name]["inherited_event_count"] == numbers.get("inherited_events", 0)
        assert found[name]["orphan_prefix_event_count"] == 0
    assert sum(row["attempt_count"] for row in found.values()) == expected["model_calls"]
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        assert sum(row[name] for row in found.values()) == expected[name]


def test_buckets_stand_side_by_side(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S03")
    visible = expected.pop("visible_output_tokens")
    for mart in ("sessions", "turns", "usage_daily"):
        [row] = query(f"from marts.{mart}")
        assert {name: row[name] for name in expected} == expected, mart
        assert row["output_tokens"] - row["reasoning_tokens"] == visible


def test_a_model_without_a_price_leaves_a_partial_sum(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S05")
    first, second = query("from marts.turns order by turn")
    assert first["cost"] is expected["turn_1_usd"] is None
    assert second["cost"] == Decimal(str(expected["turn_2_usd"]))
    [session] = query("from marts.sessions")
    assert session["cost"] == Decimal(str(expected["total_usd_priced"]))
    assert session["unpriced_attempt_count"] == expected["unpriced_calls"]
    assert (session["unpriced_attempt_count"] > 0) is expected["report_says_partial"]
    unpriced = query("from marts.usage_daily where unpriced_attempt_count > 0")
    assert [f"{row['provider']}/{row['model']}" for row in unpriced] == expected["unpriced_models"]
    assert sum(row["total_tokens"] for row in unpriced) == expected["unpriced_tokens"]


def test_days_of_other_zones_come_from_the_instants(case: Callable[[str], tuple[Row, Query]]) -> None:
    expected, query = case("S11")
    days = query("select day::varchar as day, sum(input_tokens)::bigint as input from marts.usage_daily group by all")
    assert {row["day"]: {"input": row["input"]} for row in days} == expected["UTC"]
    for zone in ("Asia/Shanghai", "America/Denver"):
        days = query(
            f"select (billed_at at time zone '{zone}')::date::varchar as day, sum(input_tokens)::bigint as input "
            "from marts.attempts group by all"
        )
        assert {row["day"]: {"input": row["input"]} for row in days} == expected[zone]
    [session] = query("from marts.sessions")
    assert session["clock_anomaly_count"] == expected["clock_anomalies"]
    assert [row["turn"] for row in query("from marts.turns order by start_seq")] == sorted(
        row["turn"] for row in query("from marts.turns")
    )
    assert session["created_at"].timestamp() * 1000 > START_MS - 86_400_000
