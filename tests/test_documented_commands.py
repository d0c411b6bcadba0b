"""Every `turnlake WORD …` that a page or notebook tells to run is a command, with options it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT
from turnlake.cli import COMMANDS, command_parser

# A command line: the word behind `turnlake`, then all up to the end of the code or of the command.
COMMAND = re.compile(r"(?<![\w./@$-])turnlake ([a-z]+)\b([^`\n|;&#\"']*)")
OPTION = re.compile(r"(?<=\s)--[a-z][a-z-]+|(?<=\s)-[a-z]\b")
CODE = re.compile(r"^```(?:sh|console|cron)?\n(.*?)^```$|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
PLACEHOLDERS = {"command"}


def pages() -> list[Path]:
    """README, the pages of docs, the examples for a schedule, the notebooks."""
    names = ("README.md", "docs/*.md", "docs/scheduling/*", "notebooks/*.ipynb")
    return sorted(path.relative_to(ROOT) for name in names for path in ROOT.glob(name))


def code_of(page: Path) -> str:
    """What of a page is code."""
    text = (ROOT / page).read_text("utf-8")
    if page.suffix == ".ipynb":
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
        # What a notebook prints is told to run as well.
        return "\n".join(source if kind == "code" else _spans(source) for kind, source in cells)
    return _spans(text) if page.suffix == ".md" else text


def _spans(text: str) -> str:
    return "\n".join(found[1] or found[2] for found in CODE.finditer(text))


def faults(code: str) -> Iterator[str]:
    """Commands and options in it that there are none of."""
    for found in COMMAND.finditer(code):
        name, rest = found[1], found[2]
        if name not in COMMANDS:
            yield name
            continue
        known = command_parser(name)._option_string_actions
        yield from (f"{name} {option}" for option in OPTION.findall(rest) if option not in known)


@pytest.mark.parametrize("page", pages(), ids=str)
def test_what_is_told_to_run_can_be_run(page: Path) -> None:
    assert list(faults(code_of(page))) == []


def test_a_wrong_command_and_a_wrong_option_are_found() -> None:
    assert list(faults("turnlake session x")) == ["session"]
    assert list(faults("turnlake show x --turm 2 --full")) == ["show --turm"]
    assert list(faults(_spans("Run `turnlake sessions` now."))) == ["sessions"]
