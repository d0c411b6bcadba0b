"""`turnlake alerts`: asks what it should, tells it once, survives broken and hostile alerts."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakes import opened, rows
from test_lock import end, first_line, start
from turnlake.alerts.queries import find_queries
from turnlake.alerts.run import SEVERITIES
from turnlake.cli import main
from turnlake.models.folder import sql_folder

AT = "'2026-09-18 12:00:00+00'::timestamptz"
GOOD = f"select 's1' as session_id, 1 as turn, {AT} as \"at\", 'warning' as severity, 'look' as message"

HOLDER_OF_MEMORY = """
import sys
from pathlib import Path
from turnlake.alerts.memory import remembering
with remembering(Path(sys.argv[1]), "x", print):
    print("held", flush=True)
    sys.stdin.read()
"""

# Runs `turnlake alerts WORDS…` on the lake of the sample: exit code, stdout, stderr.
Alerts = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def built_lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("alerts") / "lake"
    assert main(["build", str(sample), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    return lake


@pytest.fixture
def lake(built_lake: Path) -> Path:
    """The lake of the sample, with nothing reported yet."""
    (built_lake / "alerts.json").unlink(missing_ok=True)
    return built_lake


@pytest.fixture
def alerts(lake: Path, capsys: pytest.CaptureFixture[str]) -> Alerts:
    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["alerts", "--lake", str(lake), *words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


def write(folder: Path, name: str, *things: str) -> None:
    """An alert known by its message that gives these: `message [severity [at]]`, none of them for no row."""
    values = []
    for thing in things or ("none",):
        message, severity, at = [*thing.split(), *("warning", AT)[len(thing.split()) - 1 :]]
        values.append(f"('s', 1, {at}, '{severity}', '{message}')")
    select = f'select * from (values {", ".join(values)}) as t (session_id, turn, "at", severity, message)'
    (folder / f"{name}.sql").write_text(f"-- key: message\n{select} where {bool(things)}\n")


def messages(out: str) -> list[str]:
    """The last word of each line but the header."""
    return [line.split()[-1] for line in out.splitlines()[1:]]


def told(alerts: Alerts, *words: str) -> list[str]:
    """The messages that are told."""
    code, out, _ = alerts(*words)
    assert code == (1 if out else 0)
    return messages(out)


# What is asked and told.


def test_everything_the_queries_give_is_told_and_nothing_else(lake: Path, alerts: Alerts) -> None:
    code, out, err = alerts("--json")
    found = json.loads(out)
    db = opened(lake / "turnlake.duckdb")
    names = sorted(path.stem for path in (sql_folder() / "alerts").glob("*.sql"))
    expected = [
        (name, row["session_id"], row["turn"], row["severity"], row["message"])
        for name in names
        for row in rows(db, (sql_folder() / "alerts" / f"{name}.sql").read_text("utf-8"))
    ]
    told = [(row["alert"], *(row[name] for name in ("session_id", "turn", "severity", "message")))
            for row in found["fired"]]  # fmt: skip
    assert code == 1 and expected
    assert sorted(told, key=str) == sorted(expected, key=str)
    assert found["asked"] == names and found["broken"] == {}
    assert sum(found["counts"].values()) == len(expected)
    ranks = [SEVERITIES.index(row["severity"]) for row in found["fired"]]
    assert ranks == sorted(ranks)
    assert f"{len(names)} alerts asked: {found['counts']['error']} errors" in err


def test_a_table_has_a_line_for_each_thing(alerts: Alerts) -> None:
    code, out, err = alerts("--only", "error_turns", "--only", "blocked_turns", "--tz", "Asia/Tokyo")
    header, error, warning = out.splitlines()
    assert (code, header.split()) == (1, ["severity", "alert", "at", "session", "turn", "message"])
    assert error.startswith("error     error_turns") and "+09:00" in error
    assert warning.startswith("warning   blocked_turns")
    assert err == "2 alerts asked: 1 error, 1 warning\n"


def test_nothing_to_look_at(alerts: Alerts) -> None:
    assert alerts("--since", "2026-11-01") == (0, "", "11 alerts asked: nothing to look at\n")
    assert alerts("--since", "2026-11-01", "-q") == (0, "", "")


def test_quiet_tells_what_fired_and_nothing_more(alerts: Alerts) -> None:
    code, out, err = alerts("--only", "error_turns", "-q")
    assert (code, len(out.splitlines()), err) == (1, 2, "")


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [("warning", "error", 0), ("warning", "warning", 1), ("warning", "advisory", 1), ("error", "error", 1),
     ("error", "warning", 1), ("advisory", "warning", 0)],
)  # fmt: skip
def test_fail_on(alerts: Alerts, own: Path, severity: str, fail_on: str, code: int) -> None:
    write(own, "mine", f"look {severity}")
    found = alerts("--dir", str(own), "--only", "mine", "--fail-on", fail_on)
    assert (found[0], messages(found[1])) == (code, ["look"])


def test_since_keeps_that_instant_and_what_has_no_time(alerts: Alerts, own: Path) -> None:
    days = [f"d{day} error '2026-09-{day}T00:00:00+02:00'::timestamptz" for day in (17, 18, 19)]
    write(own, "mine", *days, "never error null")
    words = ("--dir", str(own), "--only", "mine", "--since", "2026-09-18")
    assert told(alerts, *words, "--tz", "Europe/Berlin") == ["d18", "d19", "never"]
    assert told(alerts, *words) == ["d19", "never"]


def test_a_wrong_name_severity_or_instant(alerts: Alerts) -> None:
    code, _, err = alerts("--only", "eror_turns")
    assert code == 2 and "there is no alert 'eror_turns' (did you mean error_turns?)" in err
    code, _, err = alerts("--fail-on", "warn")
    assert code == 2 and "did you mean warning?" in err
    assert alerts("--since", "soon")[0] == 2


def test_no_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--new-only"]):
        assert main(["alerts", "--lake", str(tmp_path / "lake"), *words]) == 2
        assert "there is no lake at" in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []


# Alerts of one's own.


def test_own_alerts_are_asked_beside_the_built_in_ones(alerts: Alerts, own: Path) -> None:
    write(own, "mine", "look")
    (own / "notes.txt").write_text("not one")
    (own / ".hidden.sql").write_text("not one either")
    found = json.loads(alerts("--dir", str(own), "--json")[1])
    assert "mine" in found["asked"] and "error_turns" in found["asked"] and found["broken"] == {}
    assert "look" in [row["message"] for row in found["fired"]]


def test_an_own_alert_replaces_the_built_in_one_of_its_name(alerts: Alerts, own: Path, tmp_path: Path) -> None:
    write(own, "error_turns", "mine")
    assert told(alerts, "--dir", str(own), "--only", "error_turns") == ["mine"]
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", "error_turns", "later")
    assert told(alerts, "--dir", str(own), "--dir", str(tmp_path / "more"), "--only", "error_turns") == ["later"]


def test_a_folder_without_alerts_is_refused(alerts: Alerts, own: Path) -> None:
    assert "holds no alerts" in alerts("--dir", str(own))[2]
    code, _, err = alerts("--dir", str(own / "gone"))
    assert code == 2 and "gone can't be read: No such file or directory" in err


SELECT = "an alert is one select and nothing else"
BROKEN = {
    "empty": ("-- nothing\n", SELECT),
    "syntax": ("selec 1", "syntax error"),
    "two statements": (f"{GOOD};\n{GOOD}", SELECT),
    "insert": ("insert into marts.turns values (1)", SELECT),
    "create": ("create table t as select 1", SELECT),
    "attach": ("attach 'x.duckdb' as x", SELECT),
    "setting": ("set enable_external_access = true", SELECT),
    "copy into the lake": (f"copy ({GOOD}) to '{{lake}}/written.csv'", SELECT),
    "unknown table": (f"{GOOD} from marts.turnz", "turnz"),
    "unknown column": (f"{GOOD}, nonsense from marts.turns", "nonsense"),
    "lacks a column": ("select 's' as session_id, 1 as turn, 'error' as severity", "its first columns must be"),
    "another order": (f"select 1 as turn, 's' as session_id, {AT} as \"at\", 'error' as severity, 'm' as message",
                      "its first columns must be session_id, turn, at, severity, message; they are turn"),
    "text for a time": (GOOD.replace(AT, "'yesterday'"), "its column at is of type VARCHAR, not TIMESTAMP WITH"),
    "time without zone": (GOOD.replace("timestamptz", "timestamp"), "its column at is of type TIMESTAMP, not"),
    "number for a session": (GOOD.replace("'s1'", "7"), "its column session_id is of type INTEGER, not VARCHAR"),
    "text for a turn": (GOOD.replace("1 as turn", "'x' as turn"), "its column turn is of type VARCHAR, not"),
    "severity": (GOOD.replace("warning", "fatal"), "'fatal', which is none of error, warning, advisory"),
    "no severity": (GOOD.replace("'warning'", "null::varchar"), "None, which is none of"),
    "column twice": (f"{GOOD}, 1 as x, 2 as x", "share a name"),
    "key": (f"-- key: session_id, day\n{GOOD}", "its key names day"),
    "parameter": (f"{GOOD} where 1 = $since", "since"),
    "reads a file": (f"{GOOD} from read_text('/etc/hostname')", "disabled"),
    "reads the web": (f"{GOOD} from read_csv('https://127.0.0.1:9/x.csv')", "disabled"),
    "reads a file by its name": (f"{GOOD} from '/etc/passwd.csv'", "disabled"),
    "fails while it runs": (f"{GOOD}, error('stop here') as x", "stop here"),
    "no text": (b"\xff\xfe", "utf-8"),
    "too many": (f"{GOOD} from range(100001)", "more than 100,000 rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_alert_says_why_and_hides_nothing(lake: Path, alerts: Alerts, own: Path, case: str) -> None:
    sql, why = BROKEN[case]
    (own / "mine.sql").write_bytes(sql if isinstance(sql, bytes) else sql.replace("{lake}", str(lake)).encode())
    before = sorted(path.name for path in lake.iterdir())
    code, out, err = alerts("--dir", str(own), "--only", "mine", "--only", "error_turns", "-q")
    assert (code, len(out.splitlines())) == (2, 2) and "error_turns" in out
    [line] = err.splitlines()
    assert line.startswith(f"turnlake: broken alert {own / 'mine.sql'}: ") and why in line
    assert sorted(path.name for path in lake.iterdir()) == before


def test_a_broken_alert_is_in_the_json_too(alerts: Alerts, own: Path) -> None:
    (own / "mine.sql").write_text("select")
    code, out, _ = alerts("--dir", str(own), "--only", "mine", "--json")
    found = json.loads(out)
    assert (code, list(found["broken"]), found["asked"], found["fired"]) == (2, ["mine"], [], [])


def test_a_folder_named_like_an_alert_is_a_broken_one(alerts: Alerts, own: Path) -> None:
    (own / "mine.sql").mkdir()
    code, _, err = alerts("--dir", str(own), "--only", "mine", "-q")
    assert code == 2 and "Is a directory" in err


def test_hostile_text_steers_nothing(alerts: Alerts, own: Path) -> None:
    hostile = "'a' || chr(27) || '[2J' || chr(10) || 'b' || chr(8238)"
    (own / "mine.sql").write_text(GOOD.replace("'look'", hostile) + f", {hostile} as more")
    out = alerts("--dir", str(own), "--only", "mine")[1]
    assert len(out.splitlines()) == 2 and r"a\x1b[2J\nb\u202e" in out
    out = alerts("--dir", str(own), "--only", "mine", "--json")[1]
    assert out.isascii() and "\x1b" not in out
    assert json.loads(out)["fired"][0]["details"] == {"more": "a\x1b[2J\nb\u202e"}


def test_values_of_all_kinds_become_json(alerts: Alerts, own: Path) -> None:
    more = (
        "1.50::decimal(9, 2) as money, date '2026-01-02' as day, 'nan'::double as n, [1, null] as l, "
        "{'a': [2.0::double]} as o, true as b, null as u, 170141183460469231731687303715884105727::hugeint as h"
    )
    (own / "mine.sql").write_text(f"{GOOD.replace('1 as turn', 'null as turn')}, {more}")
    [row] = json.loads(alerts("--dir", str(own), "--only", "mine", "--json")[1])["fired"]
    assert row["turn"] is None and row["at"] == "2026-09-18T12:00:00+00:00"
    assert row["details"] == {
        "money": "1.50", "day": "2026-01-02", "n": "nan", "l": [1, None], "o": {"a": [2.0]}, "b": True, "u": None,
        "h": 2**127 - 1,
    }  # fmt: skip


def test_times_at_the_ends_of_the_calendar(alerts: Alerts, own: Path) -> None:
    ends = ("'infinity'", "'9999-12-31 23:59:59+00'", "'0001-01-01 00:00:00+00'")
    write(own, "mine", *(f"m{number} error {end.replace(' ', 'T')}::timestamptz" for number, end in enumerate(ends)))
    for zone in ("Asia/Tokyo", "America/New_York"):
        out = alerts("--dir", str(own), "--only", "mine", "--tz", zone)[1]
        assert messages(out) == ["m0", "m1", "m2"]


# New ones only.


def test_a_thing_is_told_once(alerts: Alerts) -> None:
    assert told(alerts, "--new-only")
    assert alerts("--new-only") == (0, "", "11 alerts asked: nothing to look at\n")
    assert told(alerts)


def test_each_built_in_alert_knows_its_things_apart(lake: Path) -> None:
    db = opened(lake / "turnlake.duckdb")
    for query in find_queries():
        sql, key = query.read()
        found = [tuple(row[name] for name in key) for row in rows(db, sql)]
        assert len(set(found)) == len(found), query.name


def test_what_comes_back_is_told_again(alerts: Alerts, own: Path) -> None:
    words = ("--dir", str(own), "--only", "mine", "--new-only")
    write(own, "mine", "a", "b")
    assert told(alerts, *words) == ["a", "b"]
    write(own, "mine", "b", "c")
    assert told(alerts, *words) == ["c"]
    write(own, "mine", "a", "b", "c")
    assert told(alerts, *words) == ["a"]
    write(own, "mine")
    assert told(alerts, *words) == []
    write(own, "mine", "b")
    assert told(alerts, *words) == ["b"]


def test_what_becomes_graver_is_told_again(alerts: Alerts, own: Path) -> None:
    words = ("--dir", str(own), "--only", "mine", "--new-only")
    for severity in ("warning", "error"):
        write(own, "mine", f"a {severity}")
        assert told(alerts, *words) == ["a"]


def test_only_the_key_makes_a_thing_new(alerts: Alerts, own: Path) -> None:
    for key, again in (("session_id", []), ("session_id, message", ["y"])):
        (own / "mine.sql").write_text(f"-- key: {key}\n{GOOD.replace('look', 'x')}")
        alerts("--dir", str(own), "--only", "mine", "--new-only")
        (own / "mine.sql").write_text(f"-- key: {key}\n{GOOD.replace('look', 'y')}")
        assert told(alerts, "--dir", str(own), "--only", "mine", "--new-only") == again


def test_without_a_key_it_is_session_turn_and_time(alerts: Alerts, own: Path) -> None:
    words = ("--dir", str(own), "--only", "mine", "--new-only")
    (own / "mine.sql").write_text(GOOD)
    assert told(alerts, *words) == ["look"]
    (own / "mine.sql").write_text(GOOD.replace("look", "other"))
    assert told(alerts, *words) == []
    (own / "mine.sql").write_text(GOOD.replace("12:00", "12:01"))
    assert told(alerts, *words) == ["look"]


def test_a_window_forgets_nothing_and_hides_nothing_for_good(alerts: Alerts, own: Path) -> None:
    words = ("--dir", str(own), "--only", "mine", "--new-only")
    write(own, "mine", f"old error {AT.replace('18', '11').replace(' ', 'T')}", "young")
    assert told(alerts, *words, "--since", "2026-09-15") == ["young"]
    assert told(alerts, *words) == ["old"]
    assert told(alerts, *words, "--since", "2026-09-15") == []
    assert told(alerts, *words) == []


def test_alerts_that_were_not_asked_keep_their_memory(alerts: Alerts, own: Path) -> None:
    write(own, "one", "a")
    write(own, "two", "b")
    words = ("--dir", str(own), "--new-only")
    assert sorted(told(alerts, *words, "--only", "one", "--only", "two")) == ["a", "b"]
    assert told(alerts, *words, "--only", "one") == []
    (own / "two.sql").write_text("broken")
    assert alerts(*words, "--only", "two")[0] == 2
    write(own, "two", "b")
    assert told(alerts, *words, "--only", "two") == []


def test_the_memory_is_private_and_readable(lake: Path, alerts: Alerts, own: Path) -> None:
    write(own, "mine", "a")
    alerts("--dir", str(own), "--only", "mine", "--new-only")
    memory = lake / "alerts.json"
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600
    assert json.loads(memory.read_text()) == {"stdout": {"mine": [["warning", "a"]]}}


@pytest.mark.parametrize("content", ["", "[]", '{"stdout": []}', '{"stdout": {"mine": 7}}', "\udc80"])
def test_a_memory_that_makes_no_sense_is_named(lake: Path, alerts: Alerts, content: str) -> None:
    (lake / "alerts.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    code, out, err = alerts("--new-only")
    assert (code, out) == (2, "") and "alerts.json is not what --new-only writes. Remove it" in err


def test_what_could_not_be_printed_was_not_told(lake: Path, alerts: Alerts) -> None:
    words = [sys.executable, "-m", "turnlake", "alerts", "--lake", str(lake), "--new-only"]
    with open("/dev/full", "w") as full:  # noqa: PTH123 - it has no Path of its own worth having
        assert subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False).returncode == 3
    assert told(alerts, "--new-only")


def test_two_at_once_tell_a_thing_once(lake: Path) -> None:
    words = [sys.executable, "-m", "turnlake", "alerts", "--lake", str(lake), "--new-only", "-q"]
    environment = {**os.environ, "TURNLAKE_LAKE": ""}
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    outs = [process.communicate(timeout=120)[0] for process in both]
    assert sorted(bool(out) for out in outs) == [False, False, True]
    assert sorted(process.returncode for process in both) == [0, 0, 1]


def test_waiting_says_for_what(lake: Path) -> None:
    holder = start(HOLDER_OF_MEMORY, lake)
    assert first_line(holder) == "held"
    words = [sys.executable, "-m", "turnlake", "alerts", "--lake", str(lake), "--new-only", "--only", "error_turns"]
    waiting = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr
    said = waiting.stderr.readline()
    assert said == f"another report of new alerts is running (pid {holder.pid}); waiting for it to end\n"
    end(holder)
    assert "error_turns" in waiting.communicate(timeout=120)[0]


def test_the_documented_alert_is_one(alerts: Alerts, own: Path, root: Path) -> None:
    [sql] = re.findall(r"^```sql\n(.*?)^```$", (root / "docs" / "alerts.md").read_text("utf-8"), re.M | re.S)
    (own / "dear.sql").write_text(sql)
    assert alerts("--dir", str(own), "--only", "dear") == (0, "", "1 alert asked: nothing to look at\n")
    (own / "dear.sql").write_text(sql.replace("> 20", "> 0"))
    assert told(alerts, "--dir", str(own), "--only", "dear")


def test_asking_changes_nothing_without_new_only(lake: Path, alerts: Alerts) -> None:
    def content() -> dict[str, Any]:
        return {path.name: path.stat().st_mtime_ns for path in lake.iterdir()}

    before = content()
    alerts()
    assert content() == before


def test_broken_alerts_are_counted_and_are_not_nothing(alerts: Alerts, own: Path) -> None:
    for name in ("bad", "two"):
        (own / f"{name}.sql").write_text("selec")
    words = ("--dir", str(own), "--only", "bad")
    assert alerts(*words)[2].splitlines()[-1] == "1 alert broken"
    assert alerts(*words, "--only", "two")[2].splitlines()[-1] == "2 alerts broken"
    write(own, "quiet")
    assert alerts(*words, "--only", "quiet")[2].splitlines()[-1] == "1 alert asked: none fired; 1 alert broken"
    write(own, "loud", "look error")
    assert alerts(*words, "--only", "loud")[2].splitlines()[-1] == "1 alert asked: 1 error; 1 alert broken"
