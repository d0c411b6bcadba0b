"""Every value that the cases from public reports expect, each asked of the marts in one query."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from conftest import ROOT, Run
from test_cases import copied
from turnlake.api import connect
from turnlake.cli import main

Row = dict[str, Any]
LakeOf = Callable[[str], duckdb.DuckDBPyConnection]


def of_sessions(column: str) -> str:
    return f"select sum({column})::bigint from marts.sessions"


def as_map(key: str, value: str, rest: str) -> str:
    """A query for an object: one key and value a row."""
    return f"select map(list(k), list(v)) from (select {key} as k, {value} as v {rest} order by k)"


STATES = as_map("state", "count(*)", "from marts.turns where not is_dangling group by state")
TOKENS = {name: of_sessions(name) for name in ("input_tokens", "output_tokens")}
TURNS = of_sessions("turn_count")
DANGLING = "select count(*) from marts.turns where is_dangling"
OPEN_CALLS = "select count(*) from marts.tool_calls where outcome = 'open'"
BUCKETS = "{'input': sum(input_tokens)::bigint, 'output': sum(output_tokens)::bigint}"
CALL_TIMES = "select {{'wall_ms': wall_ms, 'approval_wait_ms': approval_wait_ms, 'exec_ms': exec_ms}} \
from marts.tool_calls where call_id = '{}'"


def days_in(zone: str) -> str:
    day = f"(billed_at at time zone '{zone}')::date::varchar"
    return as_map(day, "{'input': sum(input_tokens)::bigint}", "from marts.attempts group by all")


QUERIES: dict[str, dict[str, str]] = {
    "S01": TOKENS
    | {
        "steps": of_sessions("step_count"),
        "attempts": of_sessions("attempt_count"),
        "failed_attempts": "select count(*) from marts.attempts where outcome = 'failed'",
        "retries": "select sum(retry_count)::bigint from marts.turns",
        "turns": TURNS,
        "turn_end": STATES,
    },
    "S02": TOKENS
    | {
        "model_calls": of_sessions("attempt_count"),
        "total_tokens": of_sessions("total_tokens"),
        "rollup_p1_with_subagents": "select {'input': tree_input_tokens, 'output': tree_output_tokens} "
        "from marts.sessions where session_id = 'p1'",
        "by_session": "select {'p1': {'input': p.input_tokens, 'output': p.output_tokens}, 'c1': {'input': "
        "c.input_tokens, 'output': c.output_tokens, 'inherited_events': c.inherited_event_count}} "
        "from marts.sessions as p, marts.sessions as c where p.session_id = 'p1' and c.session_id = 'c1'",
    },
    "S03": {
        **{name: of_sessions(name) for name in ("input_tokens", "output_tokens", "cache_read_tokens")},
        **{name: of_sessions(name) for name in ("cache_write_tokens", "reasoning_tokens", "total_tokens")},
        "visible_output_tokens": "select sum(output_tokens - reasoning_tokens)::bigint from marts.attempts",
    },
    "S04": {
        "per_turn_band": "select list(price_window order by turn) from marts.attempts",
        "per_turn_usd": "select list(cost order by turn) from marts.turns",
        "total_usd": "select sum(cost) from marts.usage_daily",
    },
    "S05": {
        "total_usd_priced": "select cost from marts.sessions",
        "unpriced_calls": of_sessions("unpriced_attempt_count"),
        "unpriced_models": "select list(distinct provider || '/' || model) from marts.attempts "
        "where price_source = 'unpriced'",
        "unpriced_tokens": "select sum(total_tokens)::bigint from marts.attempts where price_source = 'unpriced'",
        "turn_1_usd": "select cost from marts.turns where turn = 1",
        "turn_2_usd": "select cost from marts.turns where turn = 2",
        "report_says_partial": "select unpriced_attempt_count > 0 from marts.sessions",
    },
    "S06": TOKENS
    | {
        "sessions": "select count(*) from marts.sessions",
        "file_used": "select replace(file_name, '.zstd', '') from raw.logs where superseded_by is null",
        "superseded_files": "select list(replace(file_name, '.zstd', '')) from raw.logs "
        "where superseded_by is not null",
        "turns": TURNS,
    },
    "S07": TOKENS
    | {
        "events": of_sessions("event_count"),
        "turns": TURNS,
        "dangling_turns": DANGLING,
        "open_tool_calls": OPEN_CALLS,
        "torn_tail": "select is_torn from raw.logs",
        "malformed_lines": "select list({'line': line}) from marts.findings where code = 'unread_line'",
    },
    "S08": TOKENS
    | {
        "turns": TURNS,
        "turn_end": STATES,
        "empty_max_tokens_messages": "select sum(empty_max_tokens_count)::bigint from marts.usage_daily",
        "steps": of_sessions("step_count"),
        "derived_messages_roles": "select list(role order by position) from marts.messages",
        "alert_max_tokens_turns": (ROOT / "sql" / "alerts" / "max_tokens_turns.sql").as_posix(),
    },
    "S09": TOKENS
    | {
        "turns": TURNS,
        "turn_end": STATES,
        "dangling_turns": DANGLING,
        "open_tool_calls": OPEN_CALLS,
        "arguments_text_c1": "select arguments from marts.tool_calls where call_id = 'c1'",
        "tool_calls_with_a_latency": "select count(coalesce(wall_ms, exec_ms)) from marts.tool_calls",
        "repaired_view": "select {'turn_end': (select map(list(state order by state), list(n order by state)) from "
        "(select state, count(*) as n from marts.turns_repaired group by state)), "
        "'synthetic_events': list(type order by seq), "
        "'error_codes': map(list(call_id order by seq) filter (where call_id is not null), "
        "list(error_code order by seq) filter (where call_id is not null))} from marts.synthetic_events",
    },
    "S10": {
        "tool_calls": of_sessions("tool_call_count"),
        "c1": CALL_TIMES.format("c1"),
        "c2": CALL_TIMES.format("c2"),
        "max_concurrency": "select max(max_parallel_tool_calls) from marts.steps",
    },
    "S11": {
        **{zone: days_in(zone) for zone in ("UTC", "Asia/Shanghai", "America/Denver")},
        "clock_anomalies": of_sessions("clock_anomaly_count"),
        "order_by": "select case when list(message_seq order by first_line) = list_sort(list(message_seq)) "
        "and list(billed_at order by first_line) <> list_sort(list(billed_at)) then 'seq' end from marts.attempts",
    },
    "S12": TOKENS
    | {
        "calls_by_purpose": as_map(
            "case kind when 'model' then 'turn' else kind end", "count(*)", "from marts.attempts group by kind"
        ),
        "by_model": as_map("model", BUCKETS, "from marts.usage_daily group by model"),
        "turns": TURNS,
        "derived_message_seqs": "select list(seq order by position) from marts.messages",
        "shadowed_seqs": "select list(seq order by seq) from marts.transcript where shadowed_by_seq is not null",
        "sources_of_seq": as_map(
            "seq::varchar",
            "list(source_seq order by source_seq)",
            "from marts.message_sources where kind = 'shadowed' group by seq",
        ),
    },
    "S13": {
        "projects": as_map(
            "project", "{'input': sum(input_tokens)::bigint}", "from marts.usage_daily group by project"
        ),
    },
}
# What a copy to share holds is tested with `export`, what the summary holds in test_cases.
ELSEWHERE = {"projects_in_hashed_mode", "metrics_output_contains", "hashed_mode_contains"}


CARDS = """\
id,provider,model,currency,valid_from,valid_to,input,output,cache_read,cache_write,peak_factor,windows,calendar,source,checked_on
own,acme,acme-coder-9,USD,2026-01-01T00:00:00Z,,1.0,10.0,,,,,,contract,2026-11-30
"""


@pytest.fixture(scope="module", params=["raw", "zstd"])
def lake_of(request: pytest.FixtureRequest, cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeOf]:
    """The lake of a case, stored raw and compressed; built when it is asked for first."""
    with ExitStack() as opened:

        @cache
        def lake_of(name: str) -> duckdb.DuckDBPyConnection:
            folder = tmp_path_factory.mktemp(name)
            copied(cases / name, folder / "root", request.param)
            words = ["build", str(folder / "root"), "--lake", str(folder / "lake"), "--workers", "1", "--json", "-q"]
            assert main(words) == 0
            return opened.enter_context(connect(folder / "lake"))

        yield lake_of


def plain(value: Any) -> Any:
    """The value with exact numbers."""
    return json.loads(json.dumps(value, default=float), parse_float=Decimal)


def asked(db: duckdb.DuckDBPyConnection, query: str) -> Any:
    """The one value of a query; of an alert, which is a file, the turns it names."""
    if query.endswith(".sql"):
        found = db.sql(Path(query).read_text(encoding="utf-8"))
        return [row[found.columns.index("turn")] for row in found.fetchall()]
    [[value]] = db.execute(query).fetchall()
    return value


@pytest.mark.parametrize(("case", "name"), [(case, name) for case, queries in QUERIES.items() for name in queries])
def test_a_value_is_as_expected(lake_of: LakeOf, cases: Path, case: str, name: str) -> None:
    expected = json.loads((cases / case / "expected.json").read_text(encoding="utf-8"), parse_float=Decimal)
    assert plain(asked(lake_of(case), QUERIES[case][name])) == expected[name]


def test_every_value_is_asked_for(cases: Path) -> None:
    for case, queries in QUERIES.items():
        expected = json.loads((cases / case / "expected.json").read_text(encoding="utf-8"))
        assert expected.keys() - ELSEWHERE == queries.keys(), case


def test_a_price_file_prices_again_without_reading_logs(cases: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    copied(cases / "S05", tmp_path / "root", "raw")
    assert main(["build", str(tmp_path / "root"), "--lake", str(lake), "--workers", "1", "--json", "-q"]) == 0
    for log in (tmp_path / "root").rglob("*.jsonl"):
        log.unlink()
    (lake / "prices.csv").write_text(CARDS)
    assert main(["model", "--lake", str(lake), "-q"]) == 0
    with connect(lake) as db:
        assert asked(db, "select cost from marts.turns where turn = 1") == Decimal("0.002")
        assert asked(db, "select sum(unpriced_attempt_count)::bigint from marts.usage_daily") == 0


def _rows(lake: Path) -> Iterator[tuple[str, list[Any]]]:
    with connect(lake) as db:
        names = db.execute("select table_name from duckdb_tables() where schema_name = 'marts' order by 1").fetchall()
        for [name] in names:
            yield name, sorted(db.execute(f"from marts.{name}").fetchall(), key=str)


def test_two_full_builds_hold_equal_rows(sample: Path, tmp_path: Path, turnlake: Run) -> None:
    """In processes of their own: a pool may only be forked where no other thread runs."""
    for lake, workers in (("a", "1"), ("b", "2")):
        assert turnlake("build", str(sample), "--lake", lake, "--workers", workers, "-q").returncode == 0
    first = dict(_rows(tmp_path / "a"))
    assert first == dict(_rows(tmp_path / "b"))
    assert {"attempts", "turns", "sessions", "usage_daily"} <= first.keys()
