"""The command line as such: how commands are found, what they share, how a run ends."""

from __future__ import annotations

import argparse
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from conftest import Run
from turnlake import __version__, cli
from turnlake.errors import LakeError, ModelError

Act = Callable[[argparse.Namespace], int]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Makes `turnlake stub` do what the test wants; it is then the only command."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("sources", nargs="*", metavar="SOURCE")
        parser.add_argument("--by", choices=["day", "project"], help="what to group by")
        parser.add_argument("--workers", type=int, help="how many processes")

    def install(act: Act) -> None:
        module = ModuleType("turnlake.commands.stub")
        vars(module).update(HELP="does nothing", EXAMPLE="turnlake stub", add_arguments=add_arguments, run=act)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(cli, "COMMANDS", {"stub": "stub"})

    return install


def raises(error: BaseException) -> Act:
    def act(args: argparse.Namespace) -> int:
        raise error

    return act


def parsed(stub: Callable[[Act], None], *words: str) -> argparse.Namespace:
    """The arguments that the stub gets."""
    seen: list[argparse.Namespace] = []
    stub(lambda args: seen.append(args) or 0)
    assert cli.main(["stub", *words]) == 0
    return seen[0]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in cli.COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"turnlake {__version__}\n"


def test_options_and_sources_mix_in_any_order(stub: Callable[[Act], None]) -> None:
    args = parsed(stub, "a", "--by", "day", "b", "--lake", "elsewhere", "-q")
    assert (args.sources, args.by, args.lake, args.quiet) == (["a", "b"], "day", Path("elsewhere"), True)


def test_a_command_knows_its_name(stub: Callable[[Act], None]) -> None:
    assert parsed(stub).command == "stub"


def test_what_follows_two_dashes_is_a_source(stub: Callable[[Act], None]) -> None:
    assert parsed(stub, "--strict", "--", "-odd").sources == ["-odd"]


def test_common_options_are_off_unless_given(stub: Callable[[Act], None]) -> None:
    args = parsed(stub)
    assert not any((args.quiet, args.verbose, args.strict, args.json, args.debug))


def test_lake_is_the_option_else_the_variable_else_data_lake(
    stub: Callable[[Act], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNLAKE_LAKE", raising=False)
    assert parsed(stub).lake == Path("data/lake")
    monkeypatch.setenv("TURNLAKE_LAKE", "/big/lake")
    assert parsed(stub).lake == Path("/big/lake")
    assert parsed(stub, "--lake", "here").lake == Path("here")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stbu"], "turnlake: no command 'stbu' (did you mean stub?); see turnlake --help\n"),
        (["frob"], "turnlake: no command 'frob'; see turnlake --help\n"),
        ([], "turnlake: no command given; see turnlake --help\n"),
        (["-q", "stub"], "turnlake: unknown argument '-q'; see turnlake --help\n"),
        (
            ["stub", "--wrokers", "2"],
            "unknown argument '--wrokers' (did you mean --workers?); see turnlake stub --help",
        ),
        (["stub", "--work", "2"], "unknown argument '--work' (did you mean --workers?)"),
        (["stub", "--by", "dya"], "argument --by: 'dya' is none of day, project (did you mean day?)"),
        (["stub", "--workers", "two"], "argument --workers: invalid int value: 'two'"),
        (["stub", "--workers=\x1b[2J"], r"invalid int value: '\x1b[2J'"),
    ],
)
def test_wrong_usage_is_one_line_and_2(
    stub: Callable[[Act], None], capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    stub(lambda args: 0)
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert told in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("code", [0, 1])
def test_exit_code_is_that_of_the_command(stub: Callable[[Act], None], code: int) -> None:
    stub(lambda args: code)
    assert cli.main(["stub"]) == code


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (LakeError("no lake at x; run turnlake build"), 2, "turnlake: no lake at x; run turnlake build\n"),
        (ModelError("turns.sql: no grain"), 3, "turnlake: turns.sql: no grain\n"),
        (LakeError("first\nsecond \x1b[31m"), 2, "turnlake: first\\nsecond \\x1b[31m\n"),
        (ZeroDivisionError("oh"), 3, "turnlake: turnlake stub failed: ZeroDivisionError: oh; --debug shows where\n"),
        (OSError("two\nlines"), 3, "failed: OSError: two lines; --debug shows where\n"),
        (ModelError("a.sql: Out of Memory Error: failed\n\n* Reduce"), 2, "It takes no --memory: free some.\n"),
        (KeyboardInterrupt(), 130, "turnlake: interrupted\n"),
        (BrokenPipeError("a worker's"), 3, "BrokenPipeError: a worker's; --debug shows where\n"),
    ],
)
def test_failure_is_one_line_and_its_code(
    stub: Callable[[Act], None], capsys: pytest.CaptureFixture[str], error: BaseException, code: int, told: str
) -> None:
    stub(raises(error))
    assert cli.main(["stub"]) == code
    out, err = capsys.readouterr()
    assert err.endswith(told)
    assert (out, err.count("\n")) == ("", 1)


def test_where_memory_can_be_bounded_that_is_what_is_told(
    stub: Callable[[Act], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    takers = [name for name in cli.COMMANDS if "--memory" in cli.command_parser(name).format_help()]
    assert sorted(cli.TAKE_MEMORY) == sorted(takers)
    monkeypatch.setattr(cli, "TAKE_MEMORY", ("stub",))
    stub(raises(ModelError("a.sql: Out of Memory Error: failed")))
    assert cli.main(["stub"]) == 2
    assert capsys.readouterr().err.endswith("by --memory, or fewer --threads.\n")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
@pytest.mark.parametrize("name", ["lake", "lake/.lock", "lake/.states/current"])
def test_a_lake_that_is_closed_to_this_user_is_wrong_input(
    stub: Callable[[Act], None], capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, number: int
) -> None:
    stub(raises(OSError(number, os.strerror(number), str(tmp_path / name))))
    assert cli.main(["stub", "--lake", str(tmp_path / "lake")]) == 2
    said = capsys.readouterr().err
    assert f"the lake {tmp_path / 'lake'} can't be used by this user" in said and said.count("\n") == 1


@pytest.mark.parametrize("name", ["elsewhere", "lake2/.lock", None])
def test_what_is_closed_elsewhere_is_not_blamed_on_the_lake(
    stub: Callable[[Act], None], capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str | None
) -> None:
    stub(raises(PermissionError(errno.EACCES, "Permission denied", name and str(tmp_path / name))))
    assert cli.main(["stub", "--lake", str(tmp_path / "lake")]) == 3
    assert "the lake" not in capsys.readouterr().err


def test_notes_of_an_error_are_a_line_each(stub: Callable[[Act], None], capsys: pytest.CaptureFixture[str]) -> None:
    error = LakeError("which?")
    error.add_note("one\x1b")
    error.add_note("two")
    stub(raises(error))
    assert cli.main(["stub"]) == 2
    assert capsys.readouterr().err == "turnlake: which?\n  one\\x1b\n  two\n"


@pytest.mark.parametrize("error", [LakeError("no lake"), ZeroDivisionError("oh")])
def test_debug_shows_the_traceback(stub: Callable[[Act], None], error: Exception) -> None:
    stub(raises(error))
    with pytest.raises(type(error)):
        cli.main(["stub", "--debug"])


def test_reader_of_stdout_may_leave(tmp_path: Path) -> None:
    program = (
        "import sys; from turnlake import cli; from types import ModuleType as M\n"
        "stub = M('turnlake.commands.stub'); stub.HELP = stub.EXAMPLE = ''\n"
        "stub.add_arguments = lambda parser: None\n"
        "stub.run = lambda args: print('line\\n' * 1_000_000) or 0\n"
        "sys.modules[stub.__name__] = stub; cli.COMMANDS = {'stub': 'stub'}\n"
        "sys.exit(cli.main(['stub']))\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (cli.PIPE_CLOSED, b"")


def test_module_runs_as_the_program_does(turnlake: Run) -> None:
    done = turnlake("--version")
    assert (done.returncode, done.stdout) == (0, f"turnlake {__version__}\n")
