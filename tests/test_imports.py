"""What an import costs, which package may import which, and what `turnlake` offers."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import turnlake
from conftest import ROOT
from turnlake import cli

PACKAGE = ROOT / "pipeline" / "turnlake"
HEAVY = ("duckdb", "jinja2", "polars", "pyarrow", "rich", "vl_convert")
# The flow has one direction: each of these imports only from itself and those before it.
LAYERS = (
    "sources",
    "format",
    "messages",
    "rows",
    "lake",
    "prices",
    "models",
    "check",
    "reports",
    "inspect",
    "alerts",
    "export",
)
# Beside the flow: what one log gives by itself. It knows events and what those stand on, and no table.
PROJECTION = "turnlake.messages"


def loaded_by(statements: str) -> set[str]:
    """The top-level modules a fresh interpreter has loaded after running the statements."""
    program = f"import sys\n{statements}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


def imports(module: Path) -> Iterator[str]:
    """The modules that a module imports anywhere in it, types included."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> list[str]:
    """The paths of all modules, relative to the package."""
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


def test_importing_turnlake_loads_nothing_heavy() -> None:
    assert not loaded_by("import turnlake; dir(turnlake); turnlake.TurnlakeError").intersection(HEAVY)


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["nonsense"], *([name, "--help"] for name in cli.COMMANDS)]
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    assert not loaded_by(f"from turnlake import cli; cli.main({words!r})").intersection(HEAVY)


def test_a_command_loads_no_other_command() -> None:
    loaded = loaded_by(
        "from turnlake import cli; cli.main(['sql', '--help'])\n"
        "print(*(name.rpartition('.')[2] for name in sys.modules if 'turnlake.commands.' in name), file=sys.stderr)"
    )
    assert "sql" in loaded
    assert not loaded.intersection(set(cli.COMMANDS) - {"sql"})


@pytest.mark.parametrize("name", turnlake.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(turnlake, name) is not None
    assert name in dir(turnlake)


def test_public_names_are_typed_where_they_are_loaded_from() -> None:
    typed = {
        alias.name: node.module
        for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    loaded = {name: getattr(turnlake, name).__module__ for name in turnlake.__all__ if name != "__version__"}
    assert {name: typed[name] for name in loaded} == turnlake._HOMES
    assert turnlake.TurnlakeError is import_module("turnlake.errors").TurnlakeError


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'turnlake' has no attribute 'nonsense'"):
        turnlake.nonsense  # noqa: B018 - the access is the test


@pytest.mark.parametrize("module", modules())
def test_imports_go_one_way(module: str) -> None:
    layer = module.partition("/")[0]
    if layer not in LAYERS:
        return
    later = LAYERS[LAYERS.index(layer) + 1 :]
    forbidden = tuple(f"turnlake.{name}" for name in (*later, "commands", "cli", "docs"))
    assert [name for name in imports(PACKAGE / module) if name.startswith(forbidden)] == []


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith("messages/")])
def test_the_projection_shares_nothing_with_the_tables(module: str) -> None:
    allowed = ("turnlake.format", "turnlake.sources", "turnlake.errors", "turnlake.findings", PROJECTION)
    # A second way to the surface is one only if it takes no step of the first.
    judging = ("rules", "judge", "types")
    first_way = tuple(f"turnlake.format.{name}" for name in judging)
    own = [name for name in imports(PACKAGE / module) if name.startswith("turnlake")]
    assert [name for name in own if not name.startswith(allowed) or name.startswith(first_way)] == []
    assert not set(imports(PACKAGE / module)).intersection(HEAVY)


def test_projecting_loads_nothing_heavy() -> None:
    assert not loaded_by("import turnlake; turnlake.derive_messages, turnlake.read_log").intersection(HEAVY)
