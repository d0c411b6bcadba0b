"""A report on a terminal or in a pipe, and as Markdown."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout

from turnlake.console import console, print_table
from turnlake.reports.usage.sheet import Column, Sheet

_KEY_WIDTH = 24
_LABEL_WIDTH = 11
# What Rich puts around a cell.
_PADDING = 2
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def print_text(sheet: Sheet) -> None:
    """Prints the report; a terminal that is too narrow for all columns gets those that matter most, and is told."""
    rows = [*sheet.rows, *sheet.totals]
    kept = _fitting(sheet.columns, rows, console(sys.stdout).width) if sys.stdout.isatty() else list(sheet.columns)
    at = [index for index, column in enumerate(sheet.columns) if column in kept]
    print(sheet.title)
    print_table(
        [column.header for column in kept],
        [[row[index] for index in at] for row in rows],
        right=[column.is_number for column in kept],
    )
    for label, text in sheet.notes:
        print(f"{label:<{_LABEL_WIDTH}}{text}")
    if left_out := [column.header for column in sheet.columns if column not in kept]:
        print(f"{'no room':<{_LABEL_WIDTH}}for {', '.join(left_out)}: a wider terminal or a pipe shows them")


def table_text(sheet: Sheet) -> str:
    """The report as it is printed in a pipe."""
    with redirect_stdout(io.StringIO()) as file:
        print_text(sheet)
    return file.getvalue()


def markdown(sheet: Sheet) -> str:
    """The report as Markdown."""
    lines = [f"# {escaped(sheet.title)}", "", *_grid(sheet), "", *_list(sheet.notes)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """The text so that Markdown shows it as it is."""
    return _MARKDOWN.sub(r"\\\1", text).translate(_ENTITIES)


def _fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[Column]:
    from rich.cells import cell_len

    widths = {
        column.header: max(len(column.header), *(cell_len(row[index]) for row in rows)) + _PADDING
        for index, column in enumerate(columns)
    }
    first = columns[0].header
    widths[first] = min(widths[first], _KEY_WIDTH + _PADDING)
    kept = list(columns)
    while sum(widths[column.header] for column in kept) + _PADDING > width:
        least = max(kept, key=lambda column: column.rank)
        if least.rank == 0:
            break
        kept.remove(least)
    return kept


def _grid(sheet: Sheet) -> Iterator[str]:
    yield _line([column.header for column in sheet.columns])
    yield _line(["---:" if column.is_number else "---" for column in sheet.columns])
    for row in sheet.rows:
        yield _line([escaped(cell) for cell in row])
    for row in sheet.totals:
        yield _line([f"**{escaped(cell)}**" if cell else "" for cell in row])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _list(notes: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield from (f"- {label}: {escaped(text)}" for label, text in notes)
