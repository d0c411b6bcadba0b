"""`check` is worth what it notices: every way to spoil a table is told, with the session and the place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from checked import fill
from conftest import ROOT
from lakes import Log, built
from logs import Session, file_name, write
from turnlake.api import connect
from turnlake.check.database import stored_checks, written
from turnlake.check.outcome import Check
from turnlake.cli import main
from turnlake.messages import outline
from turnlake.messages.messages import spoken

Database = duckdb.DuckDBPyConnection
SAMPLE = ROOT / "data" / "sample"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the sample."""
    folder = tmp_path_factory.mktemp("check") / "lake"
    assert main(["build", str(SAMPLE), "--lake", str(folder), "--workers", "1", "-q"]) == 0
    return folder


@pytest.fixture
def db(lake: Path, tmp_path: Path) -> Iterator[Database]:
    """A database of the sample to spoil: its transcript, its headers are tables, and nothing is checked yet."""
    copy = shutil.copy(lake / "turnlake.duckdb", tmp_path / "copy.duckdb")
    with written(Path(copy)) as db:
        db.execute("create table main.transcript as from marts.transcript")
        db.execute("create table main.payloads as from staging.payloads where type = 'request/header'")
        for view, table in (("marts.transcript", "main.transcript"), ("staging.payloads", "main.payloads")):
            db.execute(f"drop view {view}")
            db.execute(f"create view {view} as from {table}")
        db.execute("delete from marts.projection_checks")
        yield db


def one(db: Database, query: str) -> tuple[object, ...]:
    """The first row of a query that has some."""
    return tuple(db.execute(query).fetchall()[0])


# Spoils: each names the session it hit and how the reason begins.


def lose_a_message(db: Database) -> tuple[object, str]:
    session, seq = one(db, "select session_id, seq from marts.messages where position = 2 order by session_id")
    db.execute("delete from main.transcript where session_id = ? and seq = ?", [session, seq])
    return session, "differs: messages before event"


def swap_two_messages(db: Database) -> tuple[object, str]:
    query = "select session_id, seq, lead(seq) over (order by position), position from marts.messages"
    session, seq, other, position = one(
        db, f"{query} where session_id = (select min(session_id) from marts.messages) order by position"
    )
    key, other_key = (
        db.execute(
            "select order_key from main.transcript where session_id = ? and seq = ?", [session, which]
        ).fetchall()
        for which in (seq, other)
    )
    for which, new_key, place in ((seq, other_key, position + 1), (other, key, position)):  # type: ignore[operator]
        db.execute(
            "update main.transcript set order_key = ?, position = ? where session_id = ? and seq = ?",
            [new_key[0][0], place, session, which],
        )
    return session, "differs: messages before event"


def change_a_character(db: Database) -> tuple[object, str]:
    session, seq = one(db, "select session_id, seq from marts.messages where content like '%e%' order by all desc")
    db.execute(
        "update main.transcript set content = replace(content, 'e', 'E') where session_id = ? and seq = ?",
        [session, seq],
    )
    return session, "differs: messages"


def change_what_was_replaced(db: Database) -> tuple[object, str]:
    session, seq = one(
        db, "select session_id, seq from main.transcript where shadowed_by_seq is not null and type = 'user/message'"
    )
    db.execute("update main.transcript set content = '[]' where session_id = ? and seq = ?", [session, seq])
    return session, "differs: messages before event"


def forget_a_replacement(db: Database) -> tuple[object, str]:
    session, seq = one(db, "select session_id, seq from main.transcript where shadowed_by_seq is not null")
    db.execute("update main.transcript set shadowed_by_seq = null where session_id = ? and seq = ?", [session, seq])
    return session, "differs: messages"


def change_a_role(db: Database) -> tuple[object, str]:
    session, seq = one(db, "select session_id, seq from marts.messages where role = 'assistant' order by all")
    db.execute("update main.transcript set role = 'user' where session_id = ? and seq = ?", [session, seq])
    return session, "differs: messages"


def change_a_usage(db: Database) -> tuple[object, str]:
    session, attempt = one(db, "select session_id, attempt_id from marts.attempts where output_tokens is not null")
    db.execute("update marts.attempts set output_tokens = output_tokens + 1 where attempt_id = ?", [attempt])
    return session, "differs: usage"


def give_two_calls_each_others_tokens(db: Database) -> tuple[object, str]:
    session, first, second = one(
        db,
        "select a.session_id, a.attempt_id, b.attempt_id from marts.attempts as a join marts.attempts as b "
        "using (session_id) where a.input_tokens <> b.input_tokens",
    )
    db.execute(
        "update marts.attempts set input_tokens = (select sum(input_tokens) from marts.attempts "
        "where attempt_id in (?, ?)) - input_tokens where attempt_id in (?, ?)",
        [first, second, first, second],
    )
    return session, "differs: usage"


def lose_a_call_of_unknown_usage(db: Database) -> tuple[object, str]:
    session, attempt = one(db, "select session_id, attempt_id from marts.attempts where total_tokens is null")
    db.execute("delete from marts.attempts where attempt_id = ?", [attempt])
    return session, "differs: usage"


def change_a_header(db: Database) -> tuple[object, str]:
    session, seq = one(db, "select session_id, seq from main.payloads order by all")
    db.execute(
        "update main.payloads set payload = replace(payload, 'config\":{', 'config\":{\"x\":1,') "
        "where session_id = ? and seq = ?",
        [session, seq],
    )
    return session, "differs: request header before event"


def change_a_closer(db: Database) -> tuple[object, str]:
    (session,) = one(db, "select session_id from marts.synthetic_events where type = 'tool/result'")
    db.execute(
        "update marts.synthetic_events set error_code = 'TOOL_NOT_STARTED', call_seq = null "
        "where session_id = ? and type = 'tool/result' and call_seq is not null",
        [session],
    )
    db.execute("update marts.synthetic_events set seq = seq + 1000 where session_id = ?", [session])
    return session, "differs: closers"


def lose_the_closers(db: Database) -> tuple[object, str]:
    (session,) = one(db, "select session_id from marts.synthetic_events")
    db.execute("delete from marts.synthetic_events where session_id = ?", [session])
    return session, "differs: closers"


SPOILS = (
    lose_a_message, swap_two_messages, change_a_character, change_what_was_replaced, forget_a_replacement,
    change_a_role, change_a_usage, give_two_calls_each_others_tokens, lose_a_call_of_unknown_usage, change_a_header,
    change_a_closer, lose_the_closers,
)  # fmt: skip


def test_what_is_not_spoiled_is_equal(db: Database) -> None:
    checks = fill(db)
    assert len(checks) == one(db, "select count(*) from marts.sessions")[0]
    assert {check.is_equal for check in checks} == {True}
    assert {check.status for check in checks} == {"match", "not_exact"}
    assert [check.reason for check in checks if check.status == "not_exact"] == ["corrupt"]
    assert sum(check.checkpoint_count or 0 for check in checks) > 100


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_is_spoiled_is_told(db: Database, spoil: Callable[[Database], tuple[object, str]]) -> None:
    session, reason = spoil(db)
    [check] = [check for check in fill(db) if check.status != "match" and check.is_equal is not True]
    assert (check.session_id, check.status, check.is_equal, check.is_fine) == (session, "mismatch", False, False)
    assert (check.reason or "").startswith(reason)


def test_the_place_is_named(db: Database) -> None:
    session = one(db, "select session_id from marts.messages group by 1 having max(position) > 8 order by 1")[0]
    seq, position = one(db, f"select seq, position from marts.messages where session_id = '{session}' and position = 5")
    db.execute("update main.transcript set message_id = 'x' where session_id = ? and seq = ?", [session, seq])
    [check] = [check for check in fill(db) if check.status == "mismatch"]
    assert check.first_difference_position == position
    assert check.first_difference_seq is not None
    assert check.first_difference_seq > seq
    assert check.log_message_count == check.table_message_count
    assert check.log_hash != check.table_hash


def test_the_same_json_in_other_words_is_equal(db: Database) -> None:
    db.execute("update main.transcript set content = replace(content, '\":\"', '\": \"')")
    assert {check.is_equal for check in fill(db)} == {True}


def test_only_sessions_without_a_check_are_compared(db: Database) -> None:
    before = fill(db)
    spoiled, _ = change_a_usage(db)
    assert fill(db) == []
    assert stored_checks(db) == before
    db.execute("delete from marts.projection_checks where session_id = ?", [spoiled])
    assert [(check.session_id, check.status) for check in fill(db)] == [(spoiled, "mismatch")]


# The command


def checks_of(lake: Path) -> list[Check]:
    with connect(lake) as db:
        return stored_checks(db)


def small_lake(folder: Path, *versions: int) -> Path:
    for version in versions:
        session = Session(version, id=f"s{version}").turn_with_call().turn("more", "words")
        write(folder / "logs", session.raw, file_name(version), f"s{version}")
    assert main(["build", str(folder / "logs"), "--lake", str(folder / "lake"), "--workers", "1", "-q"]) == 0
    return folder / "lake"


def test_check_reads_the_logs_again_and_publishes_its_rows_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = small_lake(tmp_path, 0, 3, 4)
    assert {(check.status, check.proved_by) for check in checks_of(lake)} == {("match", "build")}
    assert main(["check", "--lake", str(lake), "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("3 sessions, 9 prefixes: 3 match\n")
    published = (lake / "turnlake.duckdb").stat().st_ino
    assert main(["check", "--lake", str(lake), "--workers", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sessions"] == {"all": 3, "match": 3, "mismatch": 0, "not_exact": 0, "not_checked": 0}
    assert (lake / "turnlake.duckdb").stat().st_ino == published
    assert {(check.status, check.proved_by) for check in checks_of(lake)} == {("match", "check")}


def test_a_difference_fails_check_and_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = small_lake(tmp_path, 4)
    monkeypatch.setattr(outline, "spoken", lambda event: None if event["type"] == "tool/result" else spoken(event))
    assert main(["check", "--lake", str(lake), "--workers", "1"]) == 1
    assert "differs: messages" in capsys.readouterr().out
    assert {check.status for check in checks_of(lake)} == {"mismatch"}
    assert main(["build", str(tmp_path / "logs"), "--full", "--lake", str(lake), "--workers", "1"]) == 1
    captured = capsys.readouterr()
    assert "0 of 1 session match (1 mismatch)" in captured.out
    assert "the tables of 1 session say something else" in captured.err


def test_an_error_that_the_harness_tolerates_fails_check(tmp_path: Path) -> None:
    log = Log()
    log.turn()
    log.finding("INV-21", severity="error", branch=0, seq=1)
    log.finding("INV-47", severity="advisory", branch=0, seq=1)
    built(tmp_path, log).close()
    with written(tmp_path / "lake.duckdb") as db:
        [check] = fill(db)
    assert (check.status, check.breach_count, check.error_count, check.is_fine) == ("not_checked", 2, 1, False)
    assert check.reason is not None


def test_a_database_that_someone_changed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = small_lake(tmp_path, 4)
    with written(lake / "turnlake.duckdb") as db:
        db.execute("create table main.mine as select 1 as x")
    assert main(["check", "--lake", str(lake)]) == 2
    assert "run `turnlake build" in capsys.readouterr().err


def test_one_session_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = small_lake(tmp_path, 0, 4)
    assert main(["check", "s4", "--lake", str(lake), "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 session, ")
    assert main(["check", "nonsense", "--lake", str(lake)]) == 2


def test_a_log_that_is_gone_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = small_lake(tmp_path, 0, 4)
    (tmp_path / "logs" / "--w--" / "s4" / file_name(4)).unlink()
    assert main(["check", "--lake", str(lake), "--workers", "1"]) == 0
    assert "1 logs were compared by what they gave when they were read" in capsys.readouterr().err
    assert {check.session_id: check.proved_by for check in checks_of(lake)} == {"s0": "check", "s4": "build"}
    assert main(["check", "--lake", str(lake), "--workers", "1", "--strict"]) == 1


def test_a_log_that_has_changed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = small_lake(tmp_path, 4)
    path = tmp_path / "logs" / "--w--" / "s4" / file_name(4)
    path.write_bytes(path.read_bytes() + b"{")
    assert main(["check", "--lake", str(lake), "--workers", "1"]) == 0
    assert "changed since they were read" in capsys.readouterr().err


def test_no_lake_is_told(tmp_path: Path) -> None:
    assert main(["check", "--lake", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()


def test_a_grown_log_is_checked_anew(tmp_path: Path) -> None:
    lake = small_lake(tmp_path, 0, 4)
    session = Session(4, id="s4").turn_with_call().turn("more", "words").turn("and", "more")
    write(tmp_path / "logs", session.raw, file_name(4), "s4")
    assert main(["build", str(tmp_path / "logs"), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    checks = {check.session_id: check for check in checks_of(lake)}
    assert {check.status for check in checks.values()} == {"match"}
    assert (checks["s0"].checkpoint_count, checks["s4"].checkpoint_count) == (3, 4)


def test_model_leaves_the_check_to_the_next_build(tmp_path: Path) -> None:
    write(tmp_path / "logs" / file_name(4), Session(4).turn().raw)
    lake = tmp_path / "lake"
    assert main(["ingest", str(tmp_path / "logs"), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    assert main(["model", "--lake", str(lake), "-q"]) == 0
    with connect(lake) as db:
        assert stored_checks(db) == []
    for command in (["build", str(tmp_path / "logs"), "--workers", "1"], ["check"]):
        assert main([*command, "--lake", str(lake), "-q"]) == 0
        with connect(lake) as db:
            assert [check.status for check in stored_checks(db)] == ["match"]
