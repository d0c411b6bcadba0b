from __future__ import annotations

from pathlib import Path

import duckdb

from lakes import START_MS, Log, built, opened, rows, write_raw
from turnlake.models.build import build_database


def one(db: duckdb.DuckDBPyConnection, query: str) -> dict[str, object]:
    (row,) = rows(db, query)
    return row


def test_a_turn_holds_its_call(tmp_path: Path) -> None:
    log = Log(cwd="/home/dev/shop/")
    log.event("user/message", source_kind="user", surface_op="append")
    log.turn(1, cache_read_tokens=5)
    db = built(tmp_path, log)
    turn = one(db, "from marts.turns")
    assert turn["state"] == turn["reason_kind"] == "completed"
    assert (turn["start_seq"], turn["end_seq"], turn["duration_ms"], turn["step_count"]) == (1, 5, 4000, 1)
    assert (turn["input_tokens"], turn["output_tokens"], turn["cache_read_tokens"]) == (10, 2, 5)
    assert turn["cache_write_tokens"] is None, "not reported is not 0"
    assert (turn["total_tokens"], turn["attempt_count"], turn["unknown_usage_attempt_count"]) == (17, 1, 0)
    assert (turn["provider"], turn["model"], turn["last_phase"]) == ("deepseek-official", "m1", None)
    session = one(db, "from marts.sessions")
    assert (session["turn_count"], session["attempt_count"], session["human_prompt_count"]) == (1, 1, 1)
    assert (session["project"], session["cwd"], session["total_tokens"]) == ("/home/dev/shop", "/home/dev/shop/", 17)


def test_the_state_is_the_reason_of_the_end(tmp_path: Path) -> None:
    states = ("completed", "aborted", "blocked", "error", "max-tokens", "interrupted", "forked", "new")
    logs = [Log(state) for state in states]
    for log, state in zip(logs, states, strict=True):
        log.turn(1, state)
    turns = rows(built(tmp_path, *logs), "from marts.turns")
    assert sorted(turn["session_id"] for turn in turns) == sorted(states)
    for turn in turns:
        state = turn["session_id"]
        assert turn["state"] == state
        assert turn["is_repaired"] is (state in ("interrupted", "forked")), state
        assert turn["last_phase"] == (None if state in ("completed", "max-tokens") else "stopping"), state
        assert not turn["is_dangling"] and not turn["is_abandoned"], state


def test_an_end_without_a_reason_is_unknown(tmp_path: Path) -> None:
    log = Log()
    log.event("turn/start", 1)
    log.event("turn/end", 1)
    assert one(built(tmp_path, log), "from marts.turns")["state"] == "unknown"


def test_a_dangling_turn_is_abandoned_once_the_session_goes_on(tmp_path: Path) -> None:
    logs = {later: Log(later) for later in ("turn/start", "session/end-seed", "nothing")}
    for later, log in logs.items():
        log.turn(1, None)
        if later != "nothing":
            log.event(later, 2 if later == "turn/start" else None)
    turns = rows(built(tmp_path, *logs.values()), "from marts.turns where turn = 1")
    assert len(turns) == len(logs)
    for turn in turns:
        is_abandoned = turn["session_id"] != "nothing"
        assert (turn["state"], turn["is_dangling"], turn["is_abandoned"]) == ("dangling", True, is_abandoned)
        assert (turn["ended_at"], turn["duration_ms"], turn["end_seq"]) == (None, None, None)


def test_last_phase_tells_what_a_turn_was_doing(tmp_path: Path) -> None:
    def log(name: str, *events: str) -> Log:
        written = Log(name)
        written.event("turn/start", 1)
        for event in events:
            if event == "chunk":
                written.chunk("text-delta", texts=["a"])
            elif event == "finish":
                written.chunk("finish", finish_kind="error")
            elif event == "message":
                written.message(tool_call_ids=["c1"])
            elif event == "result":
                written.event("tool/result", 1, 1, call_id="c1", surface_op="append")
            elif event == "closer":
                written.event("tool/result", 1, 1, call_id="c1", surface_op="append", error_code="TOOL_NOT_STARTED")
            elif event == "interrupted":
                written.event("turn/end", 1, reason_kind="interrupted")
            else:
                written.event(event, 1, None if event.startswith("compaction") else 1)
        return written

    expected = {
        "claim": log("claim"),
        "request": log("request", "step/start"),
        "request in delay": log("request in delay", "step/start", "chunk", "finish", "llm/retry"),
        "request again": log("request again", "step/start", "chunk", "finish", "llm/retry", "llm/retry-started"),
        "request compacting": log("request compacting", "step/start", "chunk", "finish", "compaction/start"),
        "streaming": log("streaming", "step/start", "chunk"),
        "streaming, closed": log("streaming, closed", "step/start", "chunk", "step/end", "interrupted"),
        "tools": log("tools", "step/start", "message"),
        "tools, closed": log("tools, closed", "step/start", "message", "closer", "step/end", "interrupted"),
        "stopping": log("stopping", "step/start", "message", "result"),
        "stopping after failure": log("stopping after failure", "step/start", "chunk", "finish"),
    }
    db = built(tmp_path, *expected.values())
    phases = {row["session_id"]: row["last_phase"] for row in rows(db, "from marts.turns")}
    assert phases == {name: name.split()[0].strip(",") for name in expected}


def test_only_own_turns_are_listed(tmp_path: Path) -> None:
    log = Log("child", parent_session_id="gone", inherited_event_count=6)
    log.turn(1)
    log.event("turn/start", 2)
    # A fork that cut turn 2 open closes it on its own side.
    log.event("session/end-seed")
    log.event("turn/end", 2, reason_kind="forked")
    log.turn(3)
    db = built(tmp_path, log)
    assert [row["turn"] for row in rows(db, "from marts.turns")] == [3]
    session = one(db, "from marts.sessions")
    assert (session["attempt_count"], session["total_tokens"], session["step_count"]) == (1, 12, 1)
    assert (session["inherited_event_count"], session["orphan_prefix_event_count"]) == (6, 6)


def test_a_turn_whose_start_is_lost_is_still_a_turn(tmp_path: Path) -> None:
    log = Log()
    log.turn(1)
    log.events.pop(0)
    turn = one(built(tmp_path, log), "from marts.turns")
    assert (turn["state"], turn["started_at"], turn["start_seq"], turn["duration_ms"]) == (
        "completed",
        None,
        None,
        None,
    )


def test_nothing_called_is_0_and_nothing_known_is_null(tmp_path: Path) -> None:
    log = Log()
    log.event("turn/start", 1)
    log.event("turn/end", 1, reason_kind="completed")
    log.turn(2, input_tokens=None, output_tokens=None, usage_place=None)
    log.turn(3)
    none, unknown, known = rows(built(tmp_path, log), "from marts.turns order by turn")
    assert (none["attempt_count"], none["input_tokens"], none["cache_read_tokens"], none["is_empty"]) == (0, 0, 0, True)
    assert (unknown["attempt_count"], unknown["input_tokens"], unknown["unknown_usage_attempt_count"]) == (1, None, 1)
    assert (known["input_tokens"], known["cache_read_tokens"], known["is_empty"]) == (10, None, False)


def test_a_session_without_any_event_of_its_own(tmp_path: Path) -> None:
    session = one(built(tmp_path, Log()), "from marts.sessions")
    assert session.pop("tree_session_count") == 1, "it is itself"
    counts = [session[name] for name in session if name.endswith("_count") or name.endswith("_tokens")]
    assert counts == [0] * len(counts)
    assert session["title"] is None and session["project"] is None


def test_logs_that_do_not_count_are_in_no_mart(tmp_path: Path) -> None:
    kept, copy, unread = (
        Log(),
        Log(log_id="copy", superseded_by="log-s1", superseded_why="copy"),
        Log("u", is_read=False),
    )
    for log in (kept, copy):
        log.turn(1)
    copy.finding("diverged_copy")
    db = built(tmp_path, kept, copy, unread)
    assert [row["session_id"] for row in rows(db, "from marts.sessions")] == ["s1"]
    assert one(db, "from marts.usage_daily")["total_tokens"] == 12
    finding = one(db, "from marts.findings")
    assert (finding["log_id"], finding["session_id"], finding["code"]) == ("copy", "s1", "diverged_copy")


def test_projects_fold_windows_paths_only(tmp_path: Path) -> None:
    paths = {
        "a": r"c:\Users\dev\Shop", "b": "C:/users/dev/shop/", "c": r"\\?\C:\Users\dev\Shop\\",
        "d": "/home/dev/Shop/", "e": "/home/dev/shop", "f": "/", "g": r"\\host\share\X", "h": r"\\?\UNC\host\share\x",
        "i": r"/home/a\b", "j": None,
    }  # fmt: skip
    db = built(tmp_path, *(Log(name, cwd=path) for name, path in paths.items()))
    assert {row["session_id"]: row["project"] for row in rows(db, "from marts.sessions")} == {
        "a": "C:/Users/dev/Shop", "b": "C:/Users/dev/Shop", "c": "C:/Users/dev/Shop",
        "d": "/home/dev/Shop", "e": "/home/dev/shop", "f": "/", "g": "//host/share/X", "h": "//host/share/X",
        "i": r"/home/a\b", "j": None,
    }  # fmt: skip


def test_a_project_is_shown_as_its_first_session_writes_it(tmp_path: Path) -> None:
    db = built(tmp_path, Log("a", cwd=r"D:\x"), Log("b", cwd=r"D:\X", created_at_ms=START_MS - 1))
    assert {row["project"] for row in rows(db, "from marts.sessions")} == {"D:/X"}


def test_the_tree_of_subagents_ends_at_forks_missing_parents_and_circles(tmp_path: Path) -> None:
    logs = [
        Log("top"),
        Log("child", parent_session_id="top", origin="subagent"),
        Log("grandchild", parent_session_id="child", origin="subagent"),
        Log("fork", parent_session_id="child"),
        Log("of fork", parent_session_id="fork", origin="subagent"),
        Log("orphan", parent_session_id="gone", origin="subagent"),
        Log("ring 1", parent_session_id="ring 2", origin="subagent"),
        Log("ring 2", parent_session_id="ring 1", origin="subagent"),
    ]
    roots = {row["session_id"]: row["root_session_id"] for row in rows(built(tmp_path, *logs), "from marts.sessions")}
    assert roots == {
        "top": "top", "child": "top", "grandchild": "top", "fork": "fork", "of fork": "fork", "orphan": "orphan",
        "ring 1": "ring 2", "ring 2": "ring 1",
    }  # fmt: skip


def test_tool_calls_are_counted_by_block_call_or_result(tmp_path: Path) -> None:
    log = Log()
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    log.message(tool_call_ids=["c1", "c2", "", ""])
    log.event("tool/call", 1, 1, call_id="c1")
    log.event("tool/result", 1, 1, call_id="c1", surface_op="append")
    log.event("tool/result", 1, 1, call_id="c1", surface_op="replace")
    log.event("tool/call", 1, 1, call_id="stray")
    log.event("tool/ptc-dispatch-start", 1, 1, call_id="c1:code:1", parent_call_id="c1")
    db = built(tmp_path, log)
    assert one(db, "from marts.turns")["tool_call_count"] == 5
    assert one(db, "from marts.sessions")["tool_call_count"] == 5


def test_empty_messages_at_the_output_limit_are_counted(tmp_path: Path) -> None:
    log = Log()
    log.turn(1, "max-tokens", content_block_count=0)
    log.turn(2, "completed", content_block_count=0)
    log.turn(3, "max-tokens")
    log.turn(4, "completed", content_block_count=0, finish_kind="max-tokens")
    db = built(tmp_path, log)
    assert [row["empty_max_tokens_count"] for row in rows(db, "from marts.turns order by turn")] == [1, 0, 0, 1]
    day = one(db, "from marts.usage_daily")
    assert (day["empty_max_tokens_count"], day["empty_max_tokens_input_tokens"]) == (2, 20)
    assert day["empty_max_tokens_total_tokens"] == 24


def test_days_are_utc_days_of_the_usage(tmp_path: Path) -> None:
    midnight = START_MS + 12 * 3_600_000
    log = Log()
    log.turn(1, time_ms=midnight - 1, cache_read_tokens=30)
    log.turn(2, time_ms=midnight)
    log.turn(3, time_ms=10**15)
    db = built(tmp_path, log)
    db.execute("set TimeZone = 'Asia/Shanghai'")
    days = rows(db, "select day, input_tokens, cache_hit_ratio from marts.usage_daily order by day nulls first")
    assert [(str(row["day"]), row["input_tokens"], row["cache_hit_ratio"]) for row in days] == [
        ("None", 10, None),
        ("2026-08-25", 10, 0.75),
        ("2026-08-26", 10, None),
    ]


def test_state_reads_the_latest_branch_and_attempts_all(tmp_path: Path) -> None:
    log = Log()
    log.turn(1, "error")
    log.back_to(2)
    log.message(input_tokens=100, output_tokens=1, usage_place="message")
    log.event("step/end", 1, 1)
    log.event("turn/end", 1, reason_kind="completed")
    db = built(tmp_path, log)
    turn = one(db, "from marts.turns")
    assert (turn["state"], turn["attempt_count"], turn["input_tokens"]) == ("completed", 2, 110)
    ids = [row["attempt_id"] for row in rows(db, "from intermediate.attempts order by attempt_id")]
    assert ids == ["s1/1.1.1", "s1/1.1.1/b1"]


def test_no_mart_has_a_column_whose_type_loses_or_surprises(tmp_path: Path) -> None:
    db = built(tmp_path, Log())
    types = rows(
        db,
        "select table_schema, table_name, column_name, data_type from information_schema.columns "
        "where table_schema in ('staging', 'intermediate', 'marts')",
    )
    for row in types:
        name = f"{row['table_schema']}.{row['table_name']}.{row['column_name']}"
        is_ratio = row["column_name"].endswith(("_ratio", "share", "_per_second")) or row["column_name"] == "delay_ms"
        assert row["data_type"] == "DOUBLE" if is_ratio else row["data_type"] not in ("DOUBLE", "HUGEINT", "JSON"), name
        if row["table_schema"] == "marts":
            expected = {"_count": "BIGINT", "_tokens": "BIGINT", "_ms": "BIGINT", "_at": "TIMESTAMP WITH TIME ZONE"}
            if row["column_name"].startswith("is_"):
                expected = {"": "BOOLEAN"}
            for ending, type_ in expected.items():
                assert not row["column_name"].endswith(ending) or row["data_type"] == type_, name


def test_two_builds_give_equal_rows_whatever_the_files_and_threads(tmp_path: Path) -> None:
    logs = [Log(f"s{number}") for number in range(20)]
    for number, log in enumerate(logs):
        log.turn(1)
        log.turn(2, "error", finish_kind="error")
        log.turn(3, None, input_tokens=number)
        log.finding("a")
        log.finding("a")
    build_database(write_raw(tmp_path / "a", logs), tmp_path / "a.duckdb", threads=1)
    build_database(write_raw(tmp_path / "b", reversed(logs), parts=7), tmp_path / "b.duckdb", threads=4, memory="200MB")
    first, second = opened(tmp_path / "a.duckdb"), opened(tmp_path / "b.duckdb")
    tables = rows(first, "select table_schema || '.' || table_name as name from information_schema.tables")
    assert len(tables) > 20
    for table in tables:
        query = f"from {table['name']} order by all"
        assert first.execute(query).fetchall() == second.execute(query).fetchall(), table["name"]
