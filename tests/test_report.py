"""`turnlake report`: its numbers are those of the marts, add up by every key, and say what they lack."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from conftest import Run
from lakes import Log, write_raw
from reports import Call, build, write_log
from turnlake.api import connect
from turnlake.cli import main
from turnlake.errors import UsageError
from turnlake.models.build import build_database
from turnlake.reports.usage.period import Period
from turnlake.rows.tables import LAKE_FORMAT

Row = dict[str, Any]
Ask = Callable[..., Row]

FORMATS = ("table", "markdown", "html", "json", "csv")
KEYS = ("day", "project", "model", "session", "turn")
SUMS = (
    "attempt_count input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens total_tokens "
    "unknown_usage_attempt_count unpriced_attempt_count empty_max_tokens_count empty_max_tokens_total_tokens"
).split()
MONEY = ("cost", "empty_max_tokens_cost")


@pytest.fixture(scope="module")
def lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the sample."""
    return build(sample, tmp_path_factory.mktemp("report") / "lake")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """The JSON report on a lake."""

    def report(lake: Path, *words: str, code: int = 0) -> Row:
        capsys.readouterr()
        assert main(["report", "--lake", str(lake), "--json", *words]) == code
        answer: Row = json.loads(capsys.readouterr().out)
        return answer

    return report


def marts_of(lake: Path, where: str = "true") -> Row:
    """What `marts.attempts` says, without the queries of the report."""
    columns = [f"sum({name})::bigint as {name}" for name in SUMS if name.endswith("_tokens") and "empty" not in name]
    query = f"""
        select count(*) as attempt_count, {", ".join(columns)}, sum(cost) as cost,
            count_if(total_tokens is null) as unknown_usage_attempt_count,
            count_if(total_tokens is not null and cost is null) as unpriced_attempt_count,
            count_if(is_empty_max_tokens) as empty_max_tokens_count,
            sum(total_tokens) filter (where is_empty_max_tokens)::bigint as empty_max_tokens_total_tokens,
            sum(cost) filter (where is_empty_max_tokens) as empty_max_tokens_cost
        from marts.attempts where {where}
    """
    with connect(lake) as db:
        result = db.execute(query)
        [row] = result.fetchall()
        return dict(zip([column[0] for column in result.description or ()], row, strict=True))


def added(rows: list[Row]) -> Row:
    """The sums over rows, unknown where no row knows."""
    known = {name: [row[name] for row in rows if row[name] is not None] for name in SUMS}
    money = {name: [Decimal(row[name]) for row in rows if row[name] is not None] for name in MONEY}
    return {name: sum(values) if values else None for name, values in (known | money).items()}


def comparable(row: Row) -> Row:
    return {name: row[name] for name in SUMS} | {name: Decimal(row[name]) for name in MONEY}


@pytest.mark.parametrize("key", KEYS)
def test_totals_are_those_of_the_marts_and_every_key_adds_up_to_them(lake: Path, ask: Ask, key: str) -> None:
    found = ask(lake, "--by", key)
    assert comparable(found["totals"]) == marts_of(lake)
    assert added(found["rows"]) == comparable(found["totals"])
    assert found["totals"]["attempt_count"] > 100
    assert found["totals"]["empty_max_tokens_count"] > 0


@pytest.mark.parametrize("key", KEYS)
def test_a_period_adds_up_too(lake: Path, ask: Ask, key: str) -> None:
    found = ask(lake, "--by", key, "--since", "2026-09-15", "--until", "2026-09-17T12:00", "--tz", "Asia/Shanghai")
    expected = marts_of(lake, "billed_at >= '2026-09-14T16:00:00Z' and billed_at < '2026-09-17T04:00:00Z'")
    nothing = {name: 0 for name, value in expected.items() if value is None and name.startswith("empty")}
    assert comparable(found["totals"]) == expected | nothing
    assert added(found["rows"]) == comparable(found["totals"])
    assert (found["since"], found["until"]) == ("2026-09-14T16:00:00.000Z", "2026-09-17T04:00:00.000Z")


def test_days_of_utc_are_those_of_usage_daily(lake: Path, ask: Ask) -> None:
    with connect(lake) as db:
        expected = dict(db.execute("select day::varchar, sum(cost) from marts.usage_daily group by 1").fetchall())
    assert {row["day"]: Decimal(row["cost"]) for row in ask(lake)["rows"]} == expected


def test_tools_are_those_of_tool_latency(lake: Path, ask: Ask) -> None:
    found = ask(lake, "--by", "tool")
    with connect(lake) as db:
        result = db.execute("from marts.tool_latency order by call_count desc, tool_name")
        names = [column[0] for column in result.description or ()]
        expected = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    assert [{name: row[name] for name in names} for row in found["rows"]] == expected
    counts = [name for name in found["tool_totals"] if name.endswith("_count")]
    assert {name: sum(row[name] for row in found["rows"]) for name in counts} == {
        name: found["tool_totals"][name] for name in counts
    }
    outcomes = sum(found["tool_totals"][f"{name}_count"] for name in
                   ("ok", "error", "denied", "aborted", "not_started", "unknown", "open"))  # fmt: skip
    assert outcomes == found["tool_totals"]["call_count"]
    assert "cost" not in found["rows"][0]


def test_lacks_are_named(lake: Path, ask: Ask) -> None:
    found = ask(lake)
    assert found["is_partial"] is True
    assert found["lacks"]["unpriced_models"] == ["ollama/qwen3-coder:30b", "unknown provider/unknown model"]
    assert found["lacks"]["unpriced_attempt_count"] == found["totals"]["unpriced_attempt_count"]
    with connect(lake) as db:
        [(unmetered,)] = db.execute("select count(*) from marts.unmetered_calls").fetchall()
        [(refused, unread)] = db.execute(
            "select count_if(verdict = 'refused' and is_read), count_if(not is_read) from raw.logs "
            "where superseded_by is null"
        ).fetchall()
        [(built_at, logs)] = db.execute("select max(finished_at), max(logs_seen) from raw.loads").fetchall()
    lacks = found["lacks"]
    assert (lacks["unmetered_call_count"], lacks["refused_log_count"], lacks["unread_log_count"]) == (
        unmetered,
        refused,
        unread,
    )
    assert datetime.fromisoformat(found["built_from"]["built_at"]) == built_at
    assert found["built_from"]["log_count"] == logs - unread - 1  # one log is superseded
    assert found["currency"] == "USD"


def test_what_the_period_has_not_is_not_lacking(lake: Path, ask: Ask) -> None:
    found = ask(lake, "--since", "2026-09-18")["lacks"]
    assert (found["unpriced_models"], found["unpriced_attempt_count"], found["unpriced_tokens"]) == ([], 0, 0)
    assert found["unread_log_count"] == 1


@pytest.mark.parametrize("name", FORMATS)
def test_equal_options_give_equal_bytes(lake: Path, tmp_path: Path, name: str, turnlake: Run) -> None:
    words = ["report", "--lake", str(lake), "--by", "model", "--since", "2026-09-13", "--format", name]
    first = turnlake(*words)
    assert first.returncode == 0
    assert main([*words, "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again").read_text(encoding="utf-8") == first.stdout != ""


def test_the_format_follows_the_name_of_the_file(lake: Path, tmp_path: Path) -> None:
    starts = {"a.html": "<!doctype html>", "a.md": "# Usage", "a.json": "{", "a.csv": "day,", "a.txt": "Usage by day"}
    for name, start in starts.items():
        assert main(["report", "--lake", str(lake), "--out", str(tmp_path / name), "-q"]) == 0
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(starts), "nothing else is left there"


def test_a_file_is_replaced_whole_and_readable_as_the_umask_says(lake: Path, tmp_path: Path) -> None:
    out, link = tmp_path / "r.json", tmp_path / "link.json"
    out.write_text("old" * 100_000)
    inode = out.stat().st_ino
    link.symlink_to(out)
    assert main(["report", "--lake", str(lake), "--out", str(link)]) == 0
    assert link.is_symlink()
    assert out.stat().st_ino != inode, "a reader of the old file keeps it"
    assert json.loads(out.read_text())["by"] == "day"
    assert stat.S_IMODE(out.stat().st_mode) & 0o600 == 0o600


def test_where_no_file_can_be_written(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in (tmp_path, tmp_path / "no" / "r.html"):
        assert main(["report", "--lake", str(lake), "--out", str(out)]) == 2
        assert "can't be written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_stays_one(lake: Path) -> None:
    assert main(["report", "--lake", str(lake), "--out", "/dev/null"]) == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_max_age(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--lake", str(lake), "--max-age", "26h"]) == 0
    assert "last build" not in capsys.readouterr().err
    assert main(["report", "--lake", str(lake), "--max-age", "0.000001s"]) == 1
    told = capsys.readouterr()
    assert "the last build" in told.err and "run `turnlake build`" in told.err
    assert told.out.startswith("Usage by day"), "the report is there all the same"


def test_strict_says_that_it_is_partial(lake: Path) -> None:
    assert main(["report", "--lake", str(lake), "--strict", "--json"]) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--by", "modle"], "did you mean model?"),
        (["--tz", "Asia/Shanghia"], "did you mean Asia/Shanghai?"),
        (["--compare"], "--compare wants --since"),
        (["--since", "2026-09-15", "--until", "2026-09-15"], "is not after --since"),
        (["--json", "--format", "csv"], "exclude each other"),
        (["--since", "soon"], "is no instant"),
        (["--max-age", "old"], "is no time"),
    ],
)
def test_options_that_make_no_sense(
    lake: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--lake", str(lake), *words]) == 2
    assert says in capsys.readouterr().err


def test_a_zone_that_only_python_knows(lake: Path) -> None:
    period = Period(None, None, ZoneInfo("Europe/Berlin"))
    from turnlake.reports.usage.questions import ask

    class Nowhere:
        def __str__(self) -> str:
            return "Mars/Base"

    with connect(lake) as db:
        assert ask(db, "usage", period, ["day"])
        with pytest.raises(UsageError, match="no time zone Mars/Base"):
            ask(db, "usage", Period(None, None, Nowhere()), ["day"])  # type: ignore[arg-type]


def test_without_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--lake", str(tmp_path / "none")]) == 2
    assert "there is no lake" in capsys.readouterr().err


# Periods


def period(since: str, until: str, zone: str) -> Period:
    tz = ZoneInfo(zone)
    edges = (datetime.fromisoformat(text).replace(tzinfo=tz).astimezone(UTC) for text in (since, until))
    return Period(*edges, tz)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York", "Pacific/Kiritimati"])
def test_the_period_before_has_as_many_days(zone: str) -> None:
    # In New York clocks went back on 1 November.
    before = period("2026-11-01", "2026-11-04", zone).before()
    assert before == period("2026-10-29", "2026-11-01", zone)
    assert before.text() == "2026-10-29 to 2026-10-31"


def test_the_period_before_is_as_long_to_the_second() -> None:
    now = period("2026-11-02T06:00", "2026-11-02T18:30", "America/New_York")
    before = now.before()
    assert (before.until, now.since - before.since) == (now.since, timedelta(hours=12, minutes=30))


def test_compare(ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [Call("2026-09-01T10:00+00:00", input_tokens=1000), Call("2026-09-03T10:00+00:00", input_tokens=3100)]
    write_log(tmp_path / "logs", "s1", calls)
    lake = build(tmp_path / "logs", tmp_path / "lake")
    words = ("--since", "2026-09-03", "--until", "2026-09-05", "--compare")
    found = ask(lake, *words)
    assert found["before"]["since"] == "2026-09-01T00:00:00.000Z"
    assert (found["totals"]["total_tokens"], found["before"]["totals"]["total_tokens"]) == (3200, 1100)
    assert main(["report", "--lake", str(lake), *words]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "+190.9%" in lines["change"]
    assert "1,100" in lines["before"]


# Time zones


def inputs(found: Row) -> dict[str, int]:
    return {row["day"]: row["input_tokens"] for row in found["rows"]}


def test_days_over_the_change_of_clocks(ask: Ask, tmp_path: Path) -> None:
    times = {
        "2026-03-08T04:59:59+00:00": 1,  # 7 March, 23:59:59 in New York, before clocks go forward
        "2026-03-08T05:00:00+00:00": 2,  # 8 March, 00:00:00
        "2026-03-09T03:59:59+00:00": 4,  # 8 March, 23:59:59, an hour ahead by then
        "2026-03-09T04:00:00+00:00": 8,  # 9 March, 00:00:00
        "2026-11-01T05:30:00+00:00": 16,  # 1 November, 01:30
        "2026-11-01T06:30:00+00:00": 32,  # 1 November, 01:30 again
        "2026-11-02T04:59:59+00:00": 64,  # 1 November, 23:59:59
    }
    write_log(tmp_path / "logs", "s1", [Call(at, input_tokens=number) for at, number in times.items()])
    lake = build(tmp_path / "logs", tmp_path / "lake")
    assert inputs(ask(lake, "--tz", "America/New_York")) == {
        "2026-03-07": 1,
        "2026-03-08": 6,
        "2026-03-09": 8,
        "2026-11-01": 112,
    }
    one_day = ("--tz", "America/New_York", "--since", "2026-03-08", "--until", "2026-03-09")
    assert ask(lake, *one_day)["totals"]["input_tokens"] == 6
    assert inputs(ask(lake, "--tz", "Asia/Shanghai")) == {
        "2026-03-08": 3,
        "2026-03-09": 12,
        "2026-11-01": 48,
        "2026-11-02": 64,
    }
    assert inputs(ask(lake)) == {"2026-03-08": 3, "2026-03-09": 12, "2026-11-01": 48, "2026-11-02": 64}


def test_the_day_that_is_first_to_begin(ask: Ask, tmp_path: Path) -> None:
    calls = [Call("2026-09-01T09:59:59+00:00", input_tokens=1), Call("2026-09-01T10:00:00+00:00", input_tokens=2)]
    write_log(tmp_path / "logs", "s1", calls)
    lake = build(tmp_path / "logs", tmp_path / "lake")
    for zone in ("Pacific/Kiritimati", "Etc/GMT-14"):
        assert inputs(ask(lake, "--tz", zone)) == {"2026-09-01": 1, "2026-09-02": 2}
        assert inputs(ask(lake, "--tz", zone, "--since", "2026-09-02")) == {"2026-09-02": 2}


# Lakes of other sizes


def test_an_empty_lake(ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    lake = build(tmp_path / "logs", tmp_path / "lake")
    for key in (*KEYS, "tool"):
        found = ask(lake, "--by", key, "--compare", "--since", "2026-09-01")
        assert (found["rows"], found["is_partial"]) == ([], False)
        assert (found["totals"]["attempt_count"], found["totals"]["total_tokens"]) == (0, 0)
        assert (found["totals"]["cost"], found["totals"]["cache_hit_ratio"]) == ("0", None)
        for name in ("table", "markdown", "html", "csv"):
            assert main(["report", "--lake", str(lake), "--by", key, "--format", name, "--strict"]) == 0
    assert "nothing: every call is metered and priced" in capsys.readouterr().out


def test_a_session_whose_usage_nobody_knows(ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "logs", "s1", [Call("2026-09-01T10:00+00:00", input_tokens=None)])
    lake = build(tmp_path / "logs", tmp_path / "lake")
    found = ask(lake)
    assert (found["totals"]["total_tokens"], found["totals"]["cost"]) == (None, None)
    assert found["lacks"]["unknown_usage_attempt_count"] == 1
    assert main(["report", "--lake", str(lake)]) == 0
    total = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("total"))
    assert total.split() == ["total", "1", "–", "–", "–", "–", "–", "–", "–", "1"]


def test_a_call_outside_any_turn_has_a_row(lake: Path, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    with connect(lake) as db:
        [(outside,)] = db.execute("select count(*) from marts.attempts where turn is null").fetchall()
    found = ask(lake, "--by", "turn")
    assert sum(row["attempt_count"] for row in found["rows"] if row["turn"] is None) == outside


def test_ten_thousand_sessions(ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = []
    for number in range(10_000):
        log = Log(f"s{number:05}")
        log.turn(input_tokens=number, output_tokens=1, model="deepseek-v4-pro")
        logs.append(log)
    lake = tmp_path / "lake"
    build_database(write_raw(lake / "raw", logs), lake / "turnlake.duckdb", threads=1)
    (lake / "format").write_text(f"{LAKE_FORMAT}\n")
    found = ask(lake, "--by", "session")
    assert len(found["rows"]) == 10_000
    assert found["rows"][0]["session_id"] == "s09999", "the costliest comes first"
    assert found["totals"]["input_tokens"] == sum(range(10_000))
    assert found["built_from"]["built_at"] is None, "no build is on record"
    assert main(["report", "--lake", str(lake), "--by", "session", "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert len(page) < 500_000
    assert "9,800 rows more are in the totals" in page
    assert "The costliest 15 of 10,000" in page
    assert main(["report", "--lake", str(lake), "--max-age", "26h", "--json"]) == 1
    assert "the last build, unknown, is more than 26 hours ago" in capsys.readouterr().err


# Cases from public reports


@pytest.fixture
def lake_of(cases: Path, tmp_path: Path) -> Callable[..., Path]:
    """The lake of one case."""

    def build_case(name: str, *options: str) -> Path:
        logs = tmp_path / name / "logs"
        if (cases / name / "session.jsonl").is_file():
            (logs / "s").mkdir(parents=True, exist_ok=True)
            shutil.copy(cases / name / "session.jsonl", logs / "s" / "session.jsonl")
        else:
            shutil.copytree(cases / name, logs, dirs_exist_ok=True)
        return build(logs, tmp_path / name / "lake", *options)

    return build_case


def expected(cases: Path, name: str) -> Row:
    answer: Row = json.loads((cases / name / "expected.json").read_text(encoding="utf-8"))
    return answer


def test_case_peak_hours(cases: Path, lake_of: Callable[..., Path], ask: Ask) -> None:
    found = ask(lake_of("S04"), "--by", "turn")
    wanted = expected(cases, "S04")
    costs = {row["turn"]: Decimal(row["cost"]) for row in found["rows"]}
    assert [costs[turn] for turn in sorted(costs)] == [Decimal(str(cost)) for cost in wanted["per_turn_usd"]]
    assert Decimal(found["totals"]["cost"]) == Decimal(str(wanted["total_usd"]))


def test_case_a_model_without_a_price(
    cases: Path, lake_of: Callable[..., Path], ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, wanted = lake_of("S05"), expected(cases, "S05")
    found = ask(lake, "--by", "turn")
    assert found["is_partial"] is wanted["report_says_partial"]
    assert Decimal(found["totals"]["cost"]) == Decimal(str(wanted["total_usd_priced"]))
    assert found["lacks"]["unpriced_models"] == wanted["unpriced_models"]
    assert found["lacks"]["unpriced_attempt_count"] == wanted["unpriced_calls"]
    assert found["lacks"]["unpriced_tokens"] == wanted["unpriced_tokens"]
    assert {row["turn"]: row["cost"] and Decimal(row["cost"]) for row in found["rows"]} == {
        1: wanted["turn_1_usd"],
        2: Decimal(str(wanted["turn_2_usd"])),
    }
    assert main(["report", "--lake", str(lake), "--by", "model"]) == 0
    [row] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("acme/")]
    assert row.split()[-2:] == ["–", "1"]


def test_case_days_around_midnight(cases: Path, lake_of: Callable[..., Path], ask: Ask) -> None:
    lake, wanted = lake_of("S11"), expected(cases, "S11")
    for zone in ("UTC", "Asia/Shanghai", "America/Denver"):
        assert inputs(ask(lake, "--tz", zone)) == {day: usage["input"] for day, usage in wanted[zone].items()}


def test_case_projects_and_nothing_private(
    cases: Path, lake_of: Callable[..., Path], ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    lake, wanted = lake_of("S13"), expected(cases, "S13")
    shown = {row["project"]: {"input": row["input_tokens"]} for row in ask(lake, "--by", "project")["rows"]}
    assert shown == wanted["projects"]
    hidden = ask(lake, "--by", "project", "--hash-paths")["rows"]
    assert len({row["project"] for row in hidden}) == wanted["projects_in_hashed_mode"]
    assert hidden == ask(lake, "--by", "project", "--hash-paths")["rows"], "a path keeps its hash"
    for key, name in [*((key, "json") for key in KEYS), *(("session", name) for name in FORMATS)]:
        for options in ([], ["--hash-paths"]):
            assert main(["report", "--lake", str(lake), "--by", key, "--format", name, *options]) == 0
            text = capsys.readouterr().out
            assert "sk-testtesttesttest" not in text, "no message is shown"
            private = [word for word in wanted["hashed_mode_contains"] if word in text]
            assert not private or not options, (key, name)


def test_the_same_without_the_cases(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for number, cwd in enumerate(["/home/dev/Shop", "/home/dev/shop", "/home/dev/项目🚀", None]):
        write_log(
            tmp_path / "logs", f"s{number}", [Call("2026-09-01T10:00+00:00", "acme", "coder", 2**number)], cwd=cwd
        )
    lake = build(tmp_path / "logs", tmp_path / "lake")
    found = ask(lake, "--by", "project")
    assert {row["project"]: row["input_tokens"] for row in found["rows"]} == {
        "/home/dev/Shop": 1,
        "/home/dev/shop": 2,
        "/home/dev/项目🚀": 4,
        None: 8,
    }
    assert found["lacks"]["unpriced_models"] == ["acme/coder"]
    hidden = ask(lake, "--by", "project", "--hash-paths")
    assert len({row["project"] for row in hidden["rows"]}) == 4
    assert "dev" not in json.dumps(hidden)


def test_help_needs_no_database(turnlake: Run) -> None:
    done = turnlake("report", "--help")
    assert done.returncode == 0
    assert "--hash-paths" in done.stdout


@pytest.mark.parametrize(
    ("since", "until", "zone", "shown"),
    [
        (None, None, "UTC", "all days"),
        ("2026-09-01", None, "UTC", "since 2026-09-01"),
        ("2026-09-01T06:30", None, "UTC", "since 2026-09-01 06:30"),
        (None, "2026-09-03", "UTC", "the beginning to 2026-09-02"),
        ("2026-09-01", "2026-09-02", "UTC", "2026-09-01"),
        ("2026-09-01", "2026-09-03", "Asia/Shanghai", "2026-09-01 to 2026-09-02"),
        ("2026-09-01", "2026-09-03T10:15", "UTC", "from 2026-09-01 00:00 until 2026-09-03 10:15"),
        ("2026-09-01T10:15", "2026-09-03", "UTC", "from 2026-09-01 10:15 until 2026-09-03 00:00"),
        ("2026-09-01", "2026-09-03T10:15", "Asia/Shanghai", "from 2026-09-01 00:00+08:00 until 2026-09-03 10:15+08:00"),
    ],
)
def test_a_period_is_shown_by_whole_days_or_by_instants(
    since: str | None, until: str | None, zone: str, shown: str
) -> None:
    tz = ZoneInfo(zone)
    edges = (text and datetime.fromisoformat(text).replace(tzinfo=tz).astimezone(UTC) for text in (since, until))
    assert Period(*(edge or None for edge in edges), tz).text() == shown


def test_both_periods_of_a_comparison_are_shown_in_one_way(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--since", "2026-09-15", "--until", "2026-09-17T12:00", "--compare"]
    assert main(["report", "--lake", str(lake), *words]) == 0
    out = capsys.readouterr().out
    assert "from 2026-09-15 00:00 until 2026-09-17 12:00 (UTC)" in out
    assert "with the period before, from 2026-09-12 12:00 until 2026-09-15 00:00, just as long" in out


@pytest.mark.parametrize("by", [*KEYS, "tool"])
def test_a_period_without_calls_says_when_the_last_one_was(
    lake: Path, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "--lake", str(lake), "--by", by, "--since", "2026-11-01"]
    for format_ in ("table", "markdown", "html"):
        assert main([*words, "--format", format_]) == 0
        out = capsys.readouterr().out
        assert "o calls in this period; the last was on 2026-09-18" in out
        assert not any(line.startswith(("total", "| **total")) for line in out.splitlines())
    # Beside the period before, 0 is a number like others.
    assert main([*words, "--until", "2026-11-02", "--compare"]) == 0
    assert ("\nbefore " in capsys.readouterr().out) == (by != "tool")


def test_a_file_of_an_unknown_suffix_wants_a_format(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "--lake", str(lake), "--out"]
    assert main([*words, str(tmp_path / "r.pdf")]) == 2
    assert ".pdf. Use .html, .htm, .md, .json, .csv, .txt, or say --format" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main([*words, str(tmp_path / "r.pdf"), "--format", "csv", "-q"]) == 0
    assert main([*words, str(tmp_path / "plain")]) == 0
    assert (tmp_path / "plain").read_text("utf-8").startswith("Usage by day")
