"""Writes the pages that are made from the code, and the outputs that README.md shows.

    python -m turnlake.docs           writes what differs
    python -m turnlake.docs --check   only names it; exit code 1 if there is any

The tables come from the catalog of a database that is built from the sample, the commands from their parsers, the
findings from their list. In README.md the lines between

    <!-- transcript: turnlake build data/sample --lake data/demo -->
    <!-- end of transcript -->

are replaced by that command and what it prints, run in a folder that holds nothing but the sample. In docs/recipes.md
each query is followed by its answer.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from turnlake import cli, findings
from turnlake.errors import TurnlakeError
from turnlake.recipes import answered
from turnlake.rows import tables

ROOT = Path(__file__).resolve().parents[2]
LAKE = Path("data", "demo")
MADE = "<!-- Made by `make docs`; change the code it is made from. -->"

# What a command prints of the clock; a page can't show it and stay fresh.
CLOCK = re.compile(r"(?<=last build )[-:0-9 ]+(?= UTC)")
TRANSCRIPT = re.compile(r"(<!-- transcript: (.+?) -->\n).*?(<!-- end of transcript -->)", re.DOTALL)
GRAIN = re.compile(r"^-- grain: (.+)$", re.MULTILINE)


class DocsError(TurnlakeError):
    """A page that can't be made."""


class TableDoc(NamedTuple):
    """What docs/tables.md says of a table: columns are (name, type, what it holds)."""

    name: str
    about: str
    grain: str | None
    columns: Sequence[tuple[str, str, str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the pages that differ, or with --check names them; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m turnlake.docs", description="Writes the generated pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    check = parser.parse_args(argv).check
    try:
        stale = [(path, text) for path, text in pages(ROOT) if not path.is_file() or path.read_text("utf-8") != text]
    except TurnlakeError as error:
        print(f"docs: {error}", file=sys.stderr)
        return error.exit_code
    for path, text in stale:
        print(f"{path.relative_to(ROOT)} {'is stale: run make docs' if check else 'written'}", file=sys.stderr)
        if not check:
            path.write_text(text, "utf-8")
    return 1 if check and stale else 0


def pages(root: Path) -> Iterator[tuple[Path, str]]:
    """Each generated page of the checkout with the text it should have. Raises DocsError."""
    readme = root / "README.md"
    with workshop(root) as folder:
        yield readme, filled(readme.read_text("utf-8"), folder)
        database = folder / LAKE / "turnlake.duckdb"
        marts = list(mart_tables(database, root / "sql" / "marts"))
        yield root / "docs" / "tables.md", tables_page(marts, raw_tables(database))
        recipes = root / "docs" / "recipes.md"
        yield recipes, answered(recipes.read_text("utf-8"), database)
    yield root / "docs" / "commands.md", commands_page()
    yield root / "docs" / "findings.md", findings_page()


@contextmanager
def workshop(root: Path) -> Iterator[Path]:
    """A folder for the time being that holds a copy of the sample, as a fresh checkout does."""
    with tempfile.TemporaryDirectory(prefix="turnlake-docs-") as name:
        folder = Path(name)
        shutil.copytree(root / "data" / "sample", folder / "data" / "sample")
        yield folder


def filled(text: str, folder: Path) -> str:
    """The text with every transcript in it replaced by what its command prints now, run in that folder in order."""
    return TRANSCRIPT.sub(lambda match: f"{match[1]}{transcript(match[2], folder)}{match[3]}", text)


def transcript(command: str, folder: Path) -> str:
    """The command line and its stdout as a block of Markdown. Raises DocsError when it is none of ours or fails."""
    program, *words = shlex.split(command)
    if program != "turnlake":
        raise DocsError(f"a transcript runs turnlake only, not {command!r}")
    machine = {key: value for key, value in os.environ.items() if not key.startswith(("TURNLAKE_", "DSH_"))}
    done = subprocess.run(
        [sys.executable, "-m", "turnlake", *words], cwd=folder, env=machine, text=True, capture_output=True
    )
    # 1 says that the thing asked about is not fine, as when an alert fires.
    if done.returncode > 1:
        raise DocsError(f"{command} ended with {done.returncode}: {done.stderr.strip()}")
    return f"```console\n$ {command}\n{CLOCK.sub('…', done.stdout.rstrip())}\n```\n"


def raw_tables(database: Path) -> Iterator[TableDoc]:
    """The raw tables as they are in a built database, saying of a column when the Parquet files lack it."""
    for table in catalog(database, "raw"):
        declared = tables.TABLES.get(table.name.removeprefix("raw."))
        stored = declared.names if declared else [name for name, _, _ in table.columns]
        columns = [
            (name, kind, about if name in stored else f"{about} Added by the view.".lstrip())
            for name, kind, about in table.columns
        ]
        yield table._replace(columns=columns)


def mart_tables(database: Path, models: Path) -> Iterator[TableDoc]:
    """The marts of a built database; the grain is from the files of their models."""
    for table in catalog(database, "marts"):
        yield table._replace(grain=grain(models / f"{table.name.removeprefix('marts.')}.sql"))


def catalog(database: Path, schema: str) -> Iterator[TableDoc]:
    """The tables and views of a schema with their columns and comments, by name. Raises DocsError."""
    import duckdb

    if not database.is_file():
        raise DocsError(f"README.md has to build the sample in a transcript: there is no {database.name}")
    with duckdb.connect(str(database), read_only=True) as db:
        found = db.execute(
            """
            select table_name, comment from duckdb_tables() where schema_name = $1
            union all
            select view_name, comment from duckdb_views() where schema_name = $1
            order by 1
            """,
            [schema],
        ).fetchall()
        for name, about in found:
            columns = db.execute(
                """
                select column_name, data_type, coalesce(comment, '') from duckdb_columns()
                where schema_name = ? and table_name = ? order by column_index
                """,
                [schema, name],
            ).fetchall()
            yield TableDoc(f"{schema}.{name}", about or "", None, columns)


def grain(model: Path) -> str | None:
    """The columns that a model's file states as its key, or None."""
    stated = GRAIN.search(model.read_text("utf-8")) if model.is_file() else None
    return stated[1] if stated else None


def tables_page(marts: Iterable[TableDoc], raw: Iterable[TableDoc]) -> str:
    """docs/tables.md."""
    return page(
        "Tables",
        "What `turnlake.duckdb` holds for its users. Times that end in `_at` are instants in UTC, durations end in",
        "`_ms`. NULL is what is unknown or does not apply; 0 is a number that is known. The raw tables `logs`,",
        "`events`, `chunk_runs` and `findings` are also folders of Parquet files in the lake.",
        "\n## Marts",
        *map(table_section, marts),
        "\n## Raw tables",
        *map(table_section, raw),
    )


def table_section(table: TableDoc) -> str:
    """One table with its columns."""
    key = f" Key: {', '.join(map(key_column, table.grain.split(',')))}." if table.grain else ""
    columns = grid(("column", "type", "holds"), ((f"`{name}`", kind, about) for name, kind, about in table.columns))
    return f"\n### {table.name}\n\n{table.about}{key}\n\n{columns}"


def key_column(name: str) -> str:
    """A column of a grain; a model marks one that may be NULL by `?`."""
    bare = name.strip().removesuffix("?")
    return f"`{bare}` (may be NULL)" if name.strip() != bare else f"`{bare}`"


def commands_page() -> str:
    """docs/commands.md."""
    helps = [("turnlake", cli.top_parser()), *((f"turnlake {name}", cli.command_parser(name)) for name in cli.COMMANDS)]
    return page(
        "Commands",
        "Results go to stdout, progress and notes to stderr. Exit codes: 0 fine; 1 the thing asked about is not fine;",
        "2 wrong usage or input; 3 internal failure, or a delivery that failed.",
        *(f"\n## {name}\n\n```text\n{parser.format_help().strip()}\n```" for name, parser in helps),
    )


def findings_page() -> str:
    """docs/findings.md."""
    rows = ((f"`{name}`", code.severity, code.about) for name, code in sorted(findings.CODES.items()))
    return page(
        "Findings",
        "What can be found in a log, as `raw.findings` counts it. error: the harness would refuse the log; warning: a",
        "reader should know; advisory: harmless. A finding may be graver or milder in some format versions.\n",
        grid(("code", "severity", "what it means"), rows),
    )


def page(title: str, *parts: str) -> str:
    """A Markdown page from its parts, one newline between them."""
    return "\n".join((f"# {title}", "", MADE, "", *parts)) + "\n"


def grid(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
