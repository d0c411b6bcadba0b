"""The documentation is true: generated pages are fresh, links lead somewhere, what README shows is what happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, Run
from turnlake import cli, docs
from turnlake.findings import Code

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def markdown() -> list[Path]:
    """All pages of the checkout, without those of installed packages."""
    return sorted(
        path.relative_to(ROOT)
        for path in ROOT.rglob("*.md")
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    )


def links(page: Path) -> Iterator[str]:
    """The targets of the relative links of a page."""
    text = CODE.sub("", (ROOT / page).read_text("utf-8"))
    return (match[1] for match in LINK.finditer(text) if "://" not in match[1])


@pytest.mark.parametrize("page", markdown(), ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    folder = (ROOT / page).parent
    assert [link for link in links(page) if not (folder / link).exists()] == []


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_has_help_and_an_example(name: str) -> None:
    command = cli.load(name)
    assert command.HELP.strip()
    assert "\n" not in command.HELP
    assert f"turnlake {name}" in command.EXAMPLE
    assert command.EXAMPLE.strip() in cli.command_parser(name).format_help()


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_an_option_has_help(name: str) -> None:
    actions = cli.command_parser(name)._actions
    assert [action.dest for action in actions if not action.help] == []


@pytest.mark.usefixtures("sample")
def test_generated_pages_and_transcripts_are_fresh() -> None:
    stale = [path.name for path, text in docs.pages(ROOT) if not path.is_file() or path.read_text("utf-8") != text]
    assert stale == [], "run make docs"


def test_tables_that_readme_names_exist() -> None:
    named = re.findall(r"\b(?:marts|raw)\.[a-z]\w*", (ROOT / "README.md").read_text("utf-8"))
    listed = re.findall(r"^### (\S+)$", (ROOT / "docs" / "tables.md").read_text("utf-8"), re.MULTILINE)
    assert set(named) <= set(listed)


def test_readme_python_runs(sample: Path, turnlake: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert turnlake("build", str(sample)).returncode == 0
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_a_transcript_is_replaced_by_what_happens(tmp_path: Path) -> None:
    page = "A\n<!-- transcript: turnlake --version -->\nold\n<!-- end of transcript -->\nB\n"
    shown = f"```console\n$ turnlake --version\nturnlake {cli.__version__}\n```\n"
    expected = f"A\n<!-- transcript: turnlake --version -->\n{shown}<!-- end of transcript -->\nB\n"
    assert docs.filled(page, tmp_path) == expected
    assert docs.filled(expected, tmp_path) == expected


@pytest.mark.parametrize(
    ("command", "told"),
    [("rm -r .", "a transcript runs turnlake only"), ("turnlake nonsense", "ended with 2: turnlake: no command")],
)
def test_a_transcript_that_can_not_be_shown(tmp_path: Path, command: str, told: str) -> None:
    with pytest.raises(docs.DocsError, match=told):
        docs.transcript(command, tmp_path)


def test_tables_page_shows_key_types_and_comments() -> None:
    mart = docs.TableDoc("marts.turns", "One row per turn.", "session_id, turn?", [("turn", "BIGINT", "From 1 | up.")])
    text = docs.tables_page([mart], [])
    assert "### marts.turns\n\nOne row per turn. Key: `session_id`, `turn` (may be NULL).\n" in text
    assert "| `turn` | BIGINT | From 1 \\| up. |" in text


def test_tables_come_from_the_catalog(tmp_path: Path) -> None:
    import duckdb

    database = tmp_path / "turnlake.duckdb"
    with duckdb.connect(str(database)) as db:
        db.execute(
            "create schema marts; create table marts.turns (turn bigint); create view marts.days as select 1 as n"
        )
        db.execute(
            "comment on table marts.turns is 'One row per turn.'; comment on column marts.turns.turn is 'From 1.'"
        )
        db.execute("create schema raw; create table raw.findings (code varchar, session_id varchar)")
    (tmp_path / "turns.sql").write_text("-- One row per turn.\n-- grain: turn\nselect 1", "utf-8")
    assert list(docs.mart_tables(database, tmp_path)) == [
        docs.TableDoc("marts.days", "", None, [("n", "INTEGER", "")]),
        docs.TableDoc("marts.turns", "One row per turn.", "turn", [("turn", "BIGINT", "From 1.")]),
    ]
    (findings,) = docs.raw_tables(database)
    assert findings.columns == [("code", "VARCHAR", ""), ("session_id", "VARCHAR", "Added by the view.")]


def test_tables_need_a_database(tmp_path: Path) -> None:
    with pytest.raises(docs.DocsError, match="has to build the sample"):
        list(docs.mart_tables(tmp_path / "turnlake.duckdb", tmp_path))


def test_findings_page_is_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {"torn_tail": Code("advisory", "Ends inside a line."), "bad_line": Code("error", "No JSON.")}
    monkeypatch.setattr(docs.findings, "CODES", codes)
    rows = docs.findings_page().splitlines()[-2:]
    assert rows == ["| `bad_line` | error | No JSON. |", "| `torn_tail` | advisory | Ends inside a line. |"]
