"""Lines of a replay on stdout: indented text in a pipe, the same in colours and wrapped on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from turnlake.console import console, plain

Tone = Literal["plain", "heading", "human", "injected", "model", "tool", "bad", "faint"]
# Names of Rich's own colours: they follow the terminal's theme.
STYLES: dict[Tone, str] = {
    "plain": "",
    "heading": "bold",
    "human": "green",
    "injected": "magenta",
    "model": "cyan",
    "tool": "yellow",
    "bad": "bold red",
    "faint": "dim",
}
INDENT = 2


class Line(NamedTuple):
    """A label and what it says; `depth` counts brackets it stands in. Text may be anything, newlines stay."""

    depth: int
    label: str
    text: str = ""
    tone: Tone = "plain"


def print_lines(lines: Iterable[Line]) -> None:
    """Prints each line; what could steer a terminal is written as an escape."""
    if sys.stdout.isatty():
        _draw(lines)
    else:
        sys.stdout.writelines(text + "\n" for line in lines for text in _texts(line))


def _texts(line: Line) -> Iterator[str]:
    """The line as aligned text: further lines of its text stand below the first."""
    first, *rest = plain(line.text, newlines=True).split("\n")
    label = plain(line.label)
    before = " " * INDENT * line.depth
    yield f"{before}{label}{'  ' if label and first else ''}{first}".rstrip()
    yield from (f"{before}{' ' * (INDENT * 2)}{text}".rstrip() for text in rest)


def _draw(lines: Iterable[Line]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    screen = console(sys.stdout)
    for line in lines:
        head, *rest = _texts(line._replace(depth=0))
        text = Text(head)
        text.stylize(STYLES[line.tone], 0, None if line.tone in ("bad", "faint") else len(plain(line.label)))
        screen.print(Padding(Text("\n").join([text, *map(Text, rest)]), (0, 0, 0, INDENT * line.depth), expand=False))
