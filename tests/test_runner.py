from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from lakes import START_MS, Log, built, opened, rows, write_raw
from turnlake.errors import ModelError
from turnlake.models import build as build_module
from turnlake.models import checks
from turnlake.models.build import build_database
from turnlake.models.checks import Check, promises, run_checks, run_checks_of_few
from turnlake.models.folder import sql_folder
from turnlake.models.lanes import side_by_side
from turnlake.models.model import read_models
from turnlake.models.script import build_script

GOOD = """-- One row per session.
-- grain: session_id
-- check: event_count >= 0

select
    -- The session.
    session_id,
    -- Its events.
    event_count
from staging.base
"""
BASE = """-- One row per log.
-- grain: log_id

select
    -- The log.
    log_id,
    -- Its session.
    session_id,
    -- Its events.
    event_count
from raw.logs
"""

Write = Callable[..., Path]


@pytest.fixture
def models(tmp_path: Path) -> Write:
    """Writes a folder of models: `name="text"` where the name is layer__model; returns the folder."""

    def write(**texts: str) -> Path:
        root = tmp_path / "sql"
        files = {"staging__base": BASE, "marts__good": GOOD} | texts
        for name, text in files.items():
            path = root / (name.replace("__", "/").replace("_test", ".test") + ".sql")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        macro = "create or replace macro instant(p_ms) as make_timestamptz(p_ms * 1000);"
        (root / "macros").mkdir()
        (root / "macros" / "time.sql").write_text(macro, encoding="utf-8")
        return root

    return write


def build(folder: Path, root: Path, *logs: Log) -> duckdb.DuckDBPyConnection:
    build_database(write_raw(folder / "raw", logs or [Log()]), folder / "x.duckdb", root=root)
    return opened(folder / "x.duckdb")


def test_a_mart_is_a_table_with_its_comments(tmp_path: Path, models: Write) -> None:
    db = build(tmp_path, models())
    assert rows(db, "from marts.good") == [{"session_id": "s1", "event_count": 0}]
    tables = dict(db.execute("select table_name, comment from duckdb_tables() where not internal").fetchall())
    assert tables == {"good": "One row per session."}
    columns = db.execute("select comment from duckdb_columns() where table_name = 'good' order by column_index")
    assert columns.fetchall() == [("The session.",), ("Its events.",)]


def test_a_cached_view_is_read_once_and_kept_as_a_view(tmp_path: Path, models: Write) -> None:
    root = models(
        staging__base=BASE.replace("-- grain", "-- stored as: cached view\n-- grain"),
        marts__view=GOOD.replace("-- grain", "-- stored as: view\n-- grain"),
    )
    db = build(tmp_path, root)
    views = db.execute("select schema_name, view_name from duckdb_views() where schema_name <> 'raw' and not internal")
    assert sorted(views.fetchall()) == [("marts", "view"), ("staging", "base")]
    assert rows(db, "from marts.view") == rows(db, "from staging.base select session_id, event_count")
    (text,) = db.execute("select string_agg(sql) from duckdb_views() where not internal").fetchone() or ("",)
    assert "memory" not in text and "lake." not in text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("-- One row per session.\n", ""), "the first line must say what one row is"),
        (("-- grain: session_id\n", ""), "the header states no grain"),
        (("    -- Its events.\n", ""), "column session_id has no comment of its own"),
        (("    -- The session.\n", ""), "has no comment above it"),
        (("    -- Its events.\n", "    -- Its events.\n    -- More.\n"), None),
        (("select\n", "select *, 1\n"), "no line is just `select`"),
        (("staging.base", "staging.bose"), "there is no table staging.bose"),
        (("staging.base", "raw.logs"), "a model of marts may not read raw.logs"),
        (("staging.base", "main.x"), "a model of marts may not read main.x"),
        (("staging.base", "bare"), "table bare has no schema"),
        (("staging.base", "lake.staging.base"), "names a database"),
        (("from staging", "form staging"), "syntax error"),
        (("from staging.base", "from (pivot staging.base on session_id using sum(event_count))"), "Only SELECT"),
        (("from staging.base\n", "from staging.base;\nselect 1\n"), "a model is one select"),
        (("from staging.base", "from staging.base where missing"), "missing"),
        (("-- check: event_count >= 0", "-- stored as: heap"), "stored as 'heap' is none of"),
        (("event_count >= 0", "event_count > 0"), "check failed: event_count > 0\n  session_id = 's1', event"),
        (("event_count >= 0", "oops >= 0"), "the check 'oops >= 0' can't be run"),
        (("    session_id,", "    null as session_id,"), 'check failed: "session_id" known'),
        (("from staging.base", "from staging.base cross join range(2)"), 'check failed: one row per "session_id"'),
    ],
)  # fmt: skip
def test_a_model_that_breaks_its_promises_is_refused(
    tmp_path: Path, models: Write, change: tuple[str, str], reason: str | None
) -> None:
    root = models(marts__good=GOOD.replace(*change))
    if reason is None:
        build(tmp_path, root)
        return
    with pytest.raises(ModelError) as caught:
        build(tmp_path, root)
    assert reason in str(caught.value)
    assert str(root / "marts" / "good.sql") in str(caught.value)


def test_models_may_not_read_in_a_circle_or_upwards(tmp_path: Path, models: Write) -> None:
    circle = models(marts__a=GOOD.replace("staging.base", "marts.b"), marts__b=GOOD.replace("staging.base", "marts.a"))
    with pytest.raises(ModelError, match=r"in a circle: marts.[ab] -> marts.[ab] -> marts.[ab]"):
        build(tmp_path, circle)
    (circle / "marts" / "a.sql").unlink()
    (circle / "marts" / "b.sql").unlink()
    (circle / "staging" / "up.sql").write_text(BASE.replace("raw.logs", "marts.good"), encoding="utf-8")
    with pytest.raises(ModelError, match=r"a model of staging may not read marts\.good"):
        build(tmp_path, circle)


def test_unknown_parts_of_a_grain_are_values_of_their_own(tmp_path: Path, models: Write) -> None:
    text = GOOD.replace("grain: session_id", "grain: session_id?")
    assert build(tmp_path, models(marts__good=text), Log(None)).execute("from marts.good").fetchall() == [(None, 0)]


def test_a_test_file_must_return_no_row(tmp_path: Path, models: Write) -> None:
    root = models(marts__good_test="select 'why' as reason from marts.good;\n")
    with pytest.raises(ModelError, match=r"good\.test\.sql: check failed: good\.test\n  reason = 'why'"):
        build(tmp_path, root)


def test_at_most_five_rows_of_a_broken_check_are_shown(tmp_path: Path, models: Write) -> None:
    root = models(marts__good=GOOD.replace("event_count >= 0", "event_count > 0"))
    with pytest.raises(ModelError) as caught:
        build(tmp_path, root, *(Log(f"s{number}") for number in range(9)))
    assert str(caught.value).count("event_count = 0") == 5


def test_models_come_after_what_they_read() -> None:
    with duckdb.connect() as db:
        models = read_models(sql_folder(), db)
    seen: set[str] = set()
    for model in models:
        assert {name for name in model.reads if not name.startswith("raw.")} <= seen
        seen.add(model.name)


def test_the_folder_of_the_checkout_comes_before_a_stale_copy(tmp_path: Path) -> None:
    package = tmp_path / "checkout" / "pipeline" / "turnlake"
    copy, own = package / "sql" / "marts", tmp_path / "checkout" / "sql" / "marts"
    copy.mkdir(parents=True)
    assert sql_folder(package) == copy.parent
    own.mkdir(parents=True)
    assert sql_folder(package) == own.parent
    with pytest.raises(ModelError, match="no SQL models"):
        sql_folder(tmp_path / "a" / "b")


def test_a_failed_build_leaves_no_spill_and_no_open_file(tmp_path: Path, models: Write) -> None:
    root = models(marts__good=GOOD.replace("event_count >= 0", "event_count > 0"))
    for _ in range(2):
        with pytest.raises(ModelError, match="check failed"):
            build(tmp_path, root)


def test_a_finished_build_is_one_file(tmp_path: Path) -> None:
    built(tmp_path, Log()).close()
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".parquet"] == ["lake.duckdb"]


def test_raw_tables_are_views_over_the_files_with_comments(tmp_path: Path) -> None:
    log = Log(inherited_event_count=1, accepted_event_count=2)
    log.turn(1)
    log.back_to(1)
    log.event("turn/end", 1)
    log.finding("torn_tail")
    db = built(tmp_path, log)
    flags = rows(db, "select branch, seq, is_inherited, is_accepted, e.at from raw.events as e order by branch, seq")
    assert [(row["branch"], row["seq"], row["is_inherited"], row["is_accepted"]) for row in flags[:3] + flags[5:]] == [
        (0, 0, True, True),
        (0, 1, False, True),
        (0, 2, False, False),
        (1, 1, False, False),
    ]
    assert flags[0]["at"].timestamp() * 1000 == START_MS + 2000
    assert rows(db, "select session_id from raw.findings") == [{"session_id": "s1"}]
    silent = "select table_name from duckdb_columns() where schema_name in ('raw', 'marts') and comment is null"
    assert db.execute(silent).fetchall() == []


def test_every_table_and_column_is_described_in_columns_doc(tmp_path: Path) -> None:
    db = built(tmp_path, Log())
    described = "select schema_name, table_name, column_name, comment from marts.columns_doc order by all"
    in_catalog = """
        select schema_name, table_name, column_name, comment from duckdb_columns() where not internal
        union all
        select schema_name, table_name, null, comment from duckdb_tables() where not internal
        union all
        select schema_name, view_name, null, comment from duckdb_views() where not internal
        order by all
    """
    found, expected = db.execute(described).fetchall(), db.execute(in_catalog).fetchall()
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    of_both = [(row, comment) for row, (*_, comment) in zip(found, expected, strict=True) if comment is not None]
    assert all(row[3] == comment for row, comment in of_both)
    assert {row[0] for row, _ in of_both} == {"raw", "marts"}
    assert {row[0] for row in found} == {"raw", "staging", "intermediate", "marts"}
    assert all(comment for *_, comment in found)


def test_columns_doc_is_in_the_order_of_schemas_tables_and_columns(tmp_path: Path) -> None:
    db = built(tmp_path, Log())
    names = db.execute("select schema_name, table_name from marts.columns_doc order by sort_key").fetchall()
    schemas = ["raw", "staging", "intermediate", "marts"]
    assert names == sorted(names, key=lambda name: (schemas.index(name[0]), name[1]))
    settings = db.execute(
        "select column_name, comment from marts.columns_doc where table_name = 'settings' and schema_name = 'raw'"
    )
    assert settings.fetchall() == [
        (None, "One row: what the database was built with."),
        ("currency", "Currency of all costs; cards in others do not apply."),
    ]
    keys = db.execute("select sort_key from marts.columns_doc order by sort_key").fetchall()
    assert keys == [(number,) for number in range(1, len(keys) + 1)]


def test_a_time_that_is_no_instant_is_null(tmp_path: Path) -> None:
    log = Log(first_event_ms=-(2**53), last_event_ms=253402300799999)
    for time_ms in (2**53, 253402300800000, 253402300799999, -62135596800000, -62135596800001):
        log.event("turn/start", 1, time_ms=time_ms)
    db = built(tmp_path, log)
    years = [row["at"] and row["at"].year for row in rows(db, "select e.at from raw.events as e order by seq")]
    assert years == [None, None, 9999, 1, None]
    assert rows(db, "select first_event_at, year(last_event_at) as y from raw.logs") == [
        {"first_event_at": None, "y": 9999}
    ]


STREAM = json.dumps(
    [
        {"type": "text-chunks", "time0": 10, "index": 0, "dt": [5], "texts": ["a", "b"]},
        {"type": "chunk", "time": 20, "chunk": {"type": "finish"}},
        {"type": "text-chunks", "time0": 30, "index": 0, "dt": [], "texts": ["c"]},
        {
            "type": "chunk",
            "time": 40,
            "chunk": {"type": "tool-call-delta", "index": 1, "id": "c1", "name": "bash", "argumentsDelta": "x"},
        },
        {"type": "chunk", "time": 50, "chunk": {"type": "text-delta", "index": 2, "text": 7}},
    ]
)


def test_chunks_are_expanded_exactly(tmp_path: Path) -> None:
    log = Log(inherited_event_count=2)
    log.chunk("text-delta", texts=["Hel", "lo ", "wor", "ld"], dt=[15, -2, 40], seq=0, time_ms=1000, block_index=0)
    log.chunk("usage", time_ms=2000)
    log.chunk("tool-call-delta", texts=["{", "}"], dt=[1], time_ms=2500)
    log.message(stream=STREAM)
    db = built(tmp_path, log)
    chunks = rows(db, "from raw.chunks order by seq, position")
    found = [(c["seq"], c["position"], c["time_ms"], c["text"], c["is_inherited"]) for c in chunks]
    assert found == [
        (0, None, 1000, "Hel", True),
        (1, None, 1015, "lo ", True),
        (2, None, 1013, "wor", False),
        (3, None, 1053, "ld", False),
        (4, None, 2000, None, False),
        (5, None, 2500, "{", False),
        (6, None, 2501, "}", False),
        (7, 0, 10, "a", False),
        (7, 1, 15, "b", False),
        (7, 2, 20, None, False),
        (7, 3, 30, "c", False),
        (7, 4, 40, "x", False),
        (7, 5, 50, None, False),
    ]
    assert [c["chunk"] for c in chunks][4] == '{"type":"usage"}'
    assert chunks[0]["session_id"] == "s1" and chunks[0]["turn"] == 1


def test_records_of_streams_are_runs_as_lines_are(tmp_path: Path) -> None:
    log = Log(inherited_event_count=1)
    log.message(3, 4, stream=STREAM)
    log.chunk("text-delta", texts=["a", "b"], dt=[-5], time_ms=1000)
    log.chunk("text-delta", texts=["alone"])
    db = built(tmp_path, log)
    names = ("form", "ordinal", "seq", "chunk_type", "block_index", "chunk_count", "time_ms", "last_time_ms")
    found = rows(db, "from raw.chunk_runs order by line, ordinal")
    assert [tuple(row[name] for name in names) for row in found[:-1]] == [
        ("stream", 0, 0, "text-delta", 0, 2, 10, 15),
        ("stream", 1, 0, "finish", None, 1, 20, 20),
        ("stream", 2, 0, "text-delta", 0, 1, 30, 30),
        ("stream", 3, 0, "tool-call-delta", 1, 1, 40, 40),
        ("stream", 4, 0, "text-delta", 2, 1, 50, 50),
        ("packed", None, 1, "text-delta", None, 2, 1000, 995),
    ]
    assert [(row["dt"], row["texts"]) for row in found] == [
        ([5], ["a", "b"]),
        (None, None),
        ([], ["c"]),
        (None, ["x"]),
        (None, None),
        ([-5], ["a", "b"]),
        (None, ["alone"]),
    ]
    assert [row["chunk"] for row in found[:3]] == [None, '{"type":"finish"}', None]
    assert [(row["call_id"], row["tool_name"]) for row in found[2:5]] == [(None, None), ("c1", "bash"), (None, None)]
    assert [row["first_token_ms"] for row in found[:5]] == [10, None, 30, 40, None]
    assert {(row["turn"], row["step"], row["is_inherited"]) for row in found[:5]} == {(3, 4, True)}


def test_a_query_for_lines_reads_no_streams_and_no_payload(tmp_path: Path) -> None:
    log = Log()
    log.message(stream=STREAM)
    log.chunk("text-delta", texts=["a", "b"])
    db = built(tmp_path, log)
    assert len(rows(db, "from staging.chunk_runs")) == 1
    for query in (
        "select * exclude (ordinal, dt, texts, chunk, payload) from raw.chunk_runs where form <> 'stream'",
        "from staging.chunk_runs",
    ):
        [(_, plan)] = db.execute(f"explain (format json) {query}").fetchall()
        assert not [name for name in ('"stream"', '"payload"') if name in plan], query
    [(_, plan)] = db.execute("explain (format json) select texts from raw.chunk_runs").fetchall()
    assert '"stream"' in plan and '"payload"' in plan


def test_loads_are_read_as_they_are_written(tmp_path: Path) -> None:
    files = write_raw(tmp_path, [Log()])
    build_database(files, tmp_path / "none.duckdb")
    empty = opened(tmp_path / "none.duckdb").execute("from raw.loads")
    names = [column[0] for column in empty.description or ()]
    loads = tmp_path / "loads.jsonl"
    loads.write_text(
        '{"started_at":"2026-08-25T12:00:00Z","finished_at":"2026-08-25T12:00:01.5Z","command":"build","logs_seen":2,'
        '"logs_read":1,"logs_unchanged":1,"logs_refused":0,"events_added":5,"read":[{"path":"a","why":"new"}]}\n',
        encoding="utf-8",
    )
    build_database(type(files)(files.tables, loads), tmp_path / "some.duckdb")
    (load,) = rows(opened(tmp_path / "some.duckdb"), "from raw.loads")
    assert list(load) == names
    assert (load["logs_seen"], load["read"]) == (2, '[{"path":"a","why":"new"}]')
    assert (load["finished_at"] - load["started_at"]).total_seconds() == 1.5


def test_paths_may_hold_quotes(tmp_path: Path) -> None:
    folder = tmp_path / "it's a 'lake'"
    log = Log()
    log.turn(1)
    files = write_raw(folder, [log])
    build_database(files, folder / "x.duckdb")
    with duckdb.connect() as db:
        db.execute(f"attach '{str(folder / 'x.duckdb').replace(chr(39), chr(39) * 2)}' as t (read_only)")
        assert db.execute("select count(*) from t.raw.events").fetchone() == (5,)


def test_the_script_rebuilds_the_same_rows_in_a_plain_database(tmp_path: Path) -> None:
    log = Log(cwd="/x")
    log.turn(1)
    log.chunk("text-delta", 2, 1, texts=["a", "b", "c"])
    files = write_raw(tmp_path, [log])
    build_database(files, tmp_path / "a.duckdb")
    script = "".join(build_script(files))
    code = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute(sys.stdin.read())"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b.duckdb")], input=script, text=True, check=True)
    first, second = opened(tmp_path / "a.duckdb"), opened(tmp_path / "b.duckdb")
    catalog = (
        "select schema_name, table_name, column_name, data_type, comment from duckdb_columns() "
        "where database_name = 'turnlake' and not internal order by all"
    )
    assert first.execute(catalog).fetchall() == second.execute(catalog).fetchall()
    for row in rows(first, "select table_schema || '.' || table_name as name from information_schema.tables"):
        query = f"from {row['name']} order by all"
        assert first.execute(query).fetchall() == second.execute(query).fetchall(), row["name"]


@pytest.mark.parametrize(
    ("condition", "told"), [("a > 1", "check failed: a > 1\n  a = 1"), ("b > 1", "the check 'b > 1' can't be run")]
)
def test_a_broken_promise_of_few_rows_is_told_as_that_of_many(condition: str, told: str) -> None:
    def promise(text: str) -> Check:
        return Check(Path("t.sql"), text, f"from t where ({text}) is not true", "t", text)

    doubles = Check(Path("t.sql"), "one row per a", "select a from t group by a having count(*) > 1", "t", keys="a")
    with duckdb.connect() as db, side_by_side(db, 2) as lanes:
        db.execute("create table t as select 1 as a")
        assert run_checks_of_few([doubles, promise("a > 0"), promise("a < 2")], lanes, unchanged) == 3
        assert run_checks_of_few([], lanes, unchanged) == 0
        for run in (run_checks, run_checks_of_few):
            with pytest.raises(ModelError, match=re.escape(told)):
                run([doubles, promise("a > 0"), promise(condition)], lanes, unchanged)
        db.execute("insert into t values (1)")
        with pytest.raises(ModelError, match="one row per a"):
            run_checks_of_few([promise("a > 0"), doubles], lanes, unchanged)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("(1, 1), (2, 2)", None),
        ("(1, 1), (null, 2)", None),
        ("(1, 1), (1, 2)", "check failed: one row per a"),
        ("(null, 1), (null, 2)", "check failed: one row per a"),
        ("(1, 1), (2, 0)", "check failed: b > 0"),
        ("(1, 1), (2, null)", "check failed: b > 0"),
        ("(1, 0), (1, 1)", "check failed: one row per a"),
    ],
)
def test_key_and_conditions_of_a_model_are_checked_in_one_query(rows: str, told: str | None) -> None:
    path = Path("t.sql")
    three = [
        Check(path, "one row per a", "select a from t group by a having count(*) > 1", "t", keys="a"),
        Check(path, "b > 0", "from t where (b > 0) is not true", "t", "b > 0"),
        Check(path, "b < 9", "from t where (b < 9) is not true", "t", "b < 9"),
    ]
    with duckdb.connect() as db, side_by_side(db, 1) as lanes:
        db.execute(f"create table t as select * from (values {rows}) as v(a, b)")
        if told is None:
            assert run_checks(three, lanes, unchanged) == 3
            return
        with pytest.raises(ModelError, match=re.escape(told)):
            run_checks(three, lanes, unchanged)


def test_each_model_is_checked_by_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def holds(query: str, _db: duckdb.DuckDBPyConnection) -> bool:
        asked.append(query)
        return True

    monkeypatch.setattr(checks, "_holds", holds)
    with duckdb.connect() as db, side_by_side(db, 1) as lanes:
        models = read_models(sql_folder(), db)
        count = run_checks(promises(models), lanes, unchanged)
    promising = [model for model in models if model.key_of is None or model.checks]
    assert len(asked) == len(promising) and count > 2 * len(asked)


def test_small_and_large_lakes_are_built_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [Log("s1", cwd="/x"), Log("s2", cwd="/x")]
    for log in logs:
        log.turn(1)
        log.message()
        log.turn(2)
        log.finding("torn_tail")
    files = write_raw(tmp_path, logs)
    for name, least in (("tiny", 1 << 30), ("large", 0)):
        monkeypatch.setattr(build_module, "TINY_BYTES", least)
        monkeypatch.setattr(build_module, "SMALL_BYTES", least)
        build_database(files, tmp_path / f"{name}.duckdb")
    tiny, large = opened(tmp_path / "tiny.duckdb"), opened(tmp_path / "large.duckdb")
    for row in rows(tiny, "select table_schema || '.' || table_name as name from information_schema.tables"):
        query = f"from {row['name']} order by all"
        assert tiny.execute(query).fetchall() == large.execute(query).fetchall(), row["name"]


def unchanged(_lane: duckdb.DuckDBPyConnection) -> None:
    """Names are looked up where they are anyway."""
