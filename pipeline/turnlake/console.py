"""What people see: tables and text on stdout, progress and notes on stderr.

On a terminal Rich draws; in a pipe the same content is aligned text that `cut` and `diff` can work on. Rich
itself honours NO_COLOR. Nothing here reads Rich markup, and every text passes `plain`, for text out of a log
may hold anything.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

UNKNOWN = "–"

# Control characters, line and paragraph separators, marks that turn the writing direction, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_BUT_NEWLINE = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def plain(text: str, *, newlines: bool = False) -> str:
    """The text with all that could steer a terminal written as an escape (`\\x1b`); newlines stay if asked for."""
    unsafe = _UNSAFE_BUT_NEWLINE if newlines else _UNSAFE
    return unsafe.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    right: Sequence[bool] | None = None,
) -> None:
    """Prints rows to stdout; None, which is unknown, shows as a dash and never as 0.

    `right` tells which columns stand to the right; without it those do that hold numbers.
    """
    table = [list(row) for row in rows]
    if right is None:
        right = [_is_numeric([row[index] for row in table]) for index in range(len(headers))]
    texts = [[_shown(cell) for cell in row] for row in table]
    if sys.stdout.isatty():
        _draw(headers, texts, right, title)
    else:
        sys.stdout.writelines(line + "\n" for line in _aligned(headers, texts, right, title))


def print_json(value: Any) -> None:
    """Prints one JSON document to stdout, ASCII only; what JSON has no type for (money, instants) becomes text."""
    print(json.dumps(value, indent=2, default=as_text))


def as_text(value: object) -> str:
    """A value as text; money without an exponent."""
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def plural(number: int | None, noun: str, nouns: str | None = None) -> str:
    """`1 call`, `2,000 calls`, `– calls`; `nouns` where an s does not make it."""
    return f"{UNKNOWN if number is None else f'{number:,}'} {noun if number == 1 else nouns or f'{noun}s'}"


def note(text: str, *, quiet: bool = False) -> None:
    """Prints one line to stderr."""
    if not quiet:
        print(plain(text), file=sys.stderr)


@contextmanager
def progress(label: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if that is a terminal; yields the function that takes how many more are done."""
    if quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    # Without auto_refresh Rich starts no thread, so processes may still be forked while the bar is shown.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(plain(label), total=total)

        def advance(done: int) -> None:
            bar.advance(task, done)
            bar.refresh()

        yield advance


def console(stream: TextIO) -> Console:
    """A Rich console on that stream that takes text as it is: no markup, no emoji codes, no highlighting."""
    from rich.console import Console

    return Console(file=stream, markup=False, emoji=False, highlight=False)


def tolerate_any_text() -> None:
    """Lets stdout and stderr write characters their encoding lacks as escapes instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_numeric(cells: Sequence[object]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, int | float | Decimal) and not isinstance(cell, bool) for cell in known)


def _shown(cell: object) -> str:
    if cell is None:
        return UNKNOWN
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return plain(as_text(cell))


def _aligned(
    headers: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool], title: str | None
) -> Iterator[str]:
    from rich.cells import cell_len

    lines = [list(headers), *texts]
    widths = [max(cell_len(line[index]) for line in lines) for index in range(len(headers))]
    if title:
        yield title
    for line in lines:
        padded = (
            " " * (width - cell_len(text)) + text if to_right else text + " " * (width - cell_len(text))
            for text, width, to_right in zip(line, widths, right, strict=True)
        )
        yield "  ".join(padded).rstrip()


def _draw(headers: Sequence[str], texts: Iterable[Sequence[str]], right: Sequence[bool], title: str | None) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left")
    for header, to_right in zip(headers, right, strict=True):
        table.add_column(Text(header), justify="right" if to_right else "left", overflow="fold")
    for line in texts:
        table.add_row(*map(Text, line))
    console(sys.stdout).print(table)
