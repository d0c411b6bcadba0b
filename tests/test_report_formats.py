"""How a report looks: on terminals of any width, in pipes, as Markdown and CSV, as JSON that keeps its schema."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conftest import ROOT, Run
from reports import Call, build, write_log
from turnlake.cli import main
from turnlake.reports.usage.numbers import change, duration, listed, money, percent, shortened
from turnlake.reports.usage.text import escaped

AT = "2026-09-01T10:00+00:00"
GOLDEN = ROOT / "tests" / "fixtures" / "reports"
# What differs between two builds of one sample, or with each look at the price list.
UNSTABLE = re.compile(
    r"last build [-0-9: ]+UTC|price table of [-0-9]+|\"(built_at|price_table_checked_on)\": \"[^\"]+\""
)
GOLDENS = {
    "day.txt": [],
    "model.md": [
        "--by",
        "model",
        "--since",
        "2026-09-15",
        "--until",
        "2026-09-17",
        "--compare",
        "--tz",
        "Asia/Shanghai",
    ],
    "turn.csv": ["--by", "turn", "--since", "2026-09-17"],
    "tool.txt": ["--by", "tool"],
    "project.json": ["--by", "project", "--tz", "America/New_York"],
}


@pytest.fixture(scope="module")
def lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the sample."""
    return build(sample, tmp_path_factory.mktemp("formats") / "lake")


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    """The schema of the JSON."""
    document = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def on_terminal(lake: Path, columns: int, *words: str, **variables: str) -> str:
    """What `turnlake report` writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    program = [sys.executable, "-m", "turnlake", "report", "--lake", str(lake), *words]
    process = subprocess.Popen(program, stdout=theirs, env={**environment, "TERM": "xterm-256color", **variables})
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # the terminal closes with its last writer
        pass
    finally:
        os.close(ours)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("name", GOLDENS)
def test_golden_outputs(lake: Path, tmp_path: Path, name: str) -> None:
    assert main(["report", "--lake", str(lake), "--out", str(tmp_path / name), *GOLDENS[name], "-q"]) == 0
    text = UNSTABLE.sub("(differs)", (tmp_path / name).read_text(encoding="utf-8"))
    if os.environ.get("TURNLAKE_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


# Terminals and pipes


@pytest.mark.parametrize("by", ["day", "session", "turn", "tool"])
def test_a_pipe_gets_no_colours_and_every_column(lake: Path, turnlake: Run, by: str) -> None:
    done = turnlake("report", "--lake", str(lake), "--by", by, COLUMNS="40")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    header = done.stdout.splitlines()[1]
    assert ("p99" if by == "tool" else "cache write") in header
    assert "no room" not in done.stdout


def test_a_terminal_gets_colours_unless_told_otherwise(lake: Path) -> None:
    assert "\x1b[" in on_terminal(lake, 120)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", on_terminal(lake, 120, NO_COLOR="1"))


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize("by", ["day", "turn", "tool"])
def test_numbers_stay_whole_on_a_narrow_terminal(lake: Path, columns: int, by: str) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(lake, columns, "--by", by, "--since", "2026-09-17"))
    table = text.partition("\nempty")[0].partition("\ntotals")[0]
    assert all(len(line) <= columns for line in table.splitlines()[1:])
    total = next(line for line in table.splitlines() if line.split()[:1] == ["total"])
    if by == "tool":
        assert total.split()[1] == "25"
    else:
        assert "0.0712" in total.split()


@pytest.mark.parametrize(("columns", "there"), [(40, False), (200, True)])
def test_what_has_no_room_is_named(lake: Path, columns: int, there: bool) -> None:
    text = on_terminal(lake, columns)
    named = re.search(r"no room +for (.*):", text)
    assert (named is None) is there
    assert ("cache write" in text.partition("no room")[0]) is there
    assert named is None or "cache write" in named[1]


# CSV


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_no_cell_is_a_formula(tmp_path: Path, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    evil = f"{start}cmd|' /C calc'!A0"
    write_log(tmp_path / "logs", "s1", [Call(AT, evil, evil, tool=evil)], cwd=evil)
    lake = build(tmp_path / "logs", tmp_path / "lake")
    for by in ("project", "model", "tool"):
        capsys.readouterr()
        assert main(["report", "--lake", str(lake), "--by", by, "--format", "csv"]) == 0
        [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
        texts = [value for value in row.values() if "cmd" in value]
        assert texts == [f"'{evil}"] * len(texts) != []


def test_csv_holds_all_digits_and_tells_its_lacks_beside(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--lake", str(lake), "--format", "csv"]) == 0
    told = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(told.out)))
    assert main(["report", "--lake", str(lake), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(Decimal(row["cost"]) for row in rows) == Decimal(document["totals"]["cost"])
    assert "not in it: 5 calls without a price" in told.err
    assert main(["report", "--lake", str(lake), "--format", "csv", "-q"]) == 0
    assert capsys.readouterr().err == ""


# Text out of logs


def test_a_name_of_ten_thousand_characters_and_one_that_turns_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path / "logs", "s1", [Call(AT, "p", "m" * 10_000)], cwd="/\u202e\x1b[2J|`*")
    lake = build(tmp_path / "logs", tmp_path / "lake")
    for name in ("table", "markdown"):
        for by in ("model", "session"):
            capsys.readouterr()
            assert main(["report", "--lake", str(lake), "--by", by, "--format", name]) == 0
            text = capsys.readouterr().out
            assert max(map(len, text.splitlines())) < 400
            assert not {"\u202e", "\x1b"} & set(text)
    assert r"/\\u202e\\x1b\[2J\|\`\*" in text


@given(st.text())
def test_markdown_shows_text_as_it_is(text: str) -> None:
    from markdown_it import MarkdownIt

    line = " ".join(text.split())
    [paragraph] = [token for token in MarkdownIt().enable("table").parse(f"x {escaped(line)} x") if token.children]
    assert {child.type for child in paragraph.children or ()} == {"text"}


# JSON


@pytest.mark.parametrize("by", ["day", "project", "model", "session", "turn", "tool"])
def test_json_keeps_its_schema(
    lake: Path, tmp_path: Path, schema: Draft202012Validator, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    for folder in (lake, build(tmp_path / "logs", tmp_path / "lake")):
        for words in ([], ["--since", "2026-09-15", "--until", "2026-09-17", "--compare"]):
            capsys.readouterr()
            assert main(["report", "--lake", str(folder), "--by", by, "--json", *words]) == 0
            document: dict[str, Any] = json.loads(capsys.readouterr().out)
            assert [error.message for error in schema.iter_errors(document)] == []
            assert document["schema_version"] == 1


def test_the_schema_refuses_what_is_wrong(lake: Path, schema: Draft202012Validator, tmp_path: Path) -> None:
    assert main(["report", "--lake", str(lake), "--out", str(tmp_path / "r.json")]) == 0
    good = json.loads((tmp_path / "r.json").read_text())
    for wrong in (
        good | {"schema_version": 2},
        good | {"totals": good["totals"] | {"cost": 0.1}},
        good | {"lacks": {}},
        good | {"rows": [{"day": "2026-09-01"}]},
        {key: value for key, value in good.items() if key != "currency"},
    ):
        assert not schema.is_valid(wrong)


# Numbers


def test_numbers_are_written_for_people() -> None:
    assert [money(Decimal(text)) for text in ("0", "0.00001", "0.00005", "1234.56785")] == [
        "0.0000",
        "<0.0001",
        "<0.0001",
        "1,234.5678",
    ]
    assert [duration(ms) for ms in (0, 999, 1000, 119_999, 120_000)] == [
        "0 ms",
        "999 ms",
        "1.0 s",
        "120.0 s",
        "2.0 min",
    ]
    assert (money(None), duration(None), percent(None), change(None, 1), change(1, None)) == ("–",) * 5
    assert (change(1, 0), change(0, 0), change(3, 2), change(Decimal(1), Decimal(4))) == ("–", "–", "+50.0%", "-75.0%")
    assert percent(0.5) == "50.0%"
    assert listed(["a"] * 14, 12).endswith("a and 2 more")
    assert len(shortened("x" * 100, 80)) <= 80 and shortened("x" * 80, 80) == "x" * 80
