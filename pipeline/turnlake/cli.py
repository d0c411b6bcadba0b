"""The command line: which commands there are, what they have in common, how they end.

A command is a module of `turnlake.commands` with `HELP`, `EXAMPLE`, `add_arguments(parser)` and
`run(args) -> int`. Only the module of the command asked for is loaded, and it loads what is heavy inside `run`.

Exit codes: 0 fine; 1 the thing asked about is not fine; 2 wrong usage or input; 3 internal failure,
or a delivery that failed.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import select
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from turnlake import __version__
from turnlake.console import note, tolerate_any_text
from turnlake.errors import LakeError, TurnlakeError, UsageError, nearest
from turnlake.signals import sigterm_as_interrupt, was_terminated

# Name of a command -> its module under turnlake.commands, in the order of the help.
COMMANDS = {
    "build": "build",
    "ingest": "ingest",
    "model": "model",
    "check": "check",
    "alerts": "alerts",
    "show": "show",
    "trace": "trace",
    "diagnose": "diagnose",
    "report": "report",
    "sql": "sql",
    "prices": "prices",
    "export": "export",
    "publish": "publish",
    "sample": "sample",
    "doctor": "doctor",
}

ABOUT = "Turns DeepSeek Harness session logs into Parquet event tables and a DuckDB database."
INTERNAL_FAILURE = 3
# 128 + SIGINT, SIGTERM and SIGPIPE: what a shell reports for programs that these signals end.
INTERRUPTED = 130
TERMINATED = 143
PIPE_CLOSED = 141
STDOUT = 1
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
# DuckDB's words for it.
OUT_OF_MEMORY = "Out of Memory Error"
# The commands that have an option for how much they may use.
TAKE_MEMORY = ("build", "export", "model", "publish")


class Command(Protocol):
    """A module of `turnlake.commands`."""

    HELP: str
    EXAMPLE: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds what only this command takes."""

    def run(self, args: argparse.Namespace) -> int:
        """Does it; returns the exit code."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in lines of 100 characters wherever it is printed, so that the pages made from it stand still."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest word it knows, and leaves the ending to `main`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Formatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raises UsageError instead of leaving the process."""
        raise UsageError(f"{message}; see {self.prog} --help")

    def parse_all(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses every word; raises UsageError for one that is unknown."""
        # Only the intermixed form takes `A --full B`, and only the other one keeps what follows `--` apart.
        parse_known = self.parse_known_args if "--" in words else self.parse_known_intermixed_args
        args, unknown = parse_known(words)
        if unknown:
            option = unknown[0].partition("=")[0]
            self.error(f"unknown argument {unknown[0]!r}{nearest(option, self._option_string_actions)}")
        return args

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            hint = nearest(str(value), known)
            raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(known)}{hint}")


class TopParser(Parser):
    """The parser of `turnlake` itself. Only its help loads all commands; `--version` works without any."""

    def format_help(self) -> str:
        """The help, with a line for each command."""
        width = max(map(len, COMMANDS))
        commands = "\n".join(f"  {name:{width}}  {load(name).HELP}" for name in COMMANDS)
        self.description = f"{ABOUT}\n\ncommands:\n{commands}"
        return super().format_help()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line, without the program's name; returns the exit code and raises nothing without --debug."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Rows by the ten thousand hold no cycles; looking for some among them every 700 objects takes a tenth of a build.
    gc.set_threshold(50_000)
    tolerate_any_text()
    try:
        with sigterm_as_interrupt():
            code = dispatch(words)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return interrupted()
    except Exception as error:  # noqa: BLE001 - the last place where a failure can be told in one line
        return interrupted() if was_terminated() else failed(error, words)
    return code


def dispatch(words: Sequence[str]) -> int:
    """Runs the command that the words name; raises what the command raises, UsageError for an unknown one."""
    try:
        name, args = parse(words)
    except SystemExit:  # --help and --version have printed what was asked for
        return 0
    try:
        return load(name).run(args)
    except OSError as error:
        if error.errno in NOT_ALLOWED and _is_in(error.filename, args.lake):
            raise LakeError(
                f"the lake {args.lake} can't be used by this user: {error.filename}: {error.strerror}. Run this as the "
                "user who built it, let that user give access, or name another lake by --lake."
            ) from error
        raise


def _is_in(path: object, folder: Path) -> bool:
    """Whether the path of a failed call is the folder or lies in it."""
    return isinstance(path, str | os.PathLike) and Path(path).absolute().is_relative_to(folder.absolute())


def parse(words: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """The command and its arguments; raises UsageError, or SystemExit once --help or --version has printed."""
    if not words or words[0].startswith("-"):
        top_parser().parse_all(words)
        raise UsageError("no command given; see turnlake --help")
    name = words[0]
    if name not in COMMANDS:
        raise UsageError(f"no command {name!r}{nearest(name, COMMANDS)}; see turnlake --help")
    args = command_parser(name).parse_all(words[1:])
    args.words = list(words)
    return name, args


def load(name: str) -> Command:
    """The module of a command."""
    return cast(Command, import_module(f"turnlake.commands.{COMMANDS[name]}"))


def top_parser() -> Parser:
    """The parser of `turnlake` itself: help and version."""
    parser = TopParser(
        prog="turnlake",
        usage="turnlake COMMAND …",
        epilog="`turnlake COMMAND --help` explains a command with an example.",
    )
    parser.add_argument("--version", action="version", version=f"turnlake {__version__}")
    return parser


def command_parser(name: str) -> Parser:
    """The parser of one command: its own arguments, the common ones, its example. `args.command` is its name."""
    command = load(name)
    parser = Parser(prog=f"turnlake {name}", description=command.HELP, epilog=f"example:\n  {command.EXAMPLE.strip()}")
    parser.set_defaults(command=name)
    command.add_arguments(parser)
    add_common_arguments(parser)
    return parser


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that every command takes."""
    common = parser.add_argument_group("common options")
    common.add_argument(
        "--lake",
        type=Path,
        metavar="DIR",
        default=Path(os.environ.get("TURNLAKE_LAKE") or "data/lake"),
        help="folder of the lake (default: $TURNLAKE_LAKE, else data/lake)",
    )
    common.add_argument("-q", "--quiet", action="store_true", help="no progress, notes and summaries: only trouble")
    common.add_argument("-v", "--verbose", action="store_true", help="more notes on stderr")
    common.add_argument("--strict", action="store_true", help="exit with 1 where something is partial")
    common.add_argument("--json", action="store_true", help="one JSON document on stdout")
    common.add_argument("--debug", action="store_true", help="show the traceback of a failure")


def interrupted() -> int:
    """Tells in one line on stderr by what a command was ended; returns its exit code."""
    note(f"turnlake: {'terminated' if was_terminated() else 'interrupted'}")
    return TERMINATED if was_terminated() else INTERRUPTED


def failed(error: Exception, words: Sequence[str]) -> int:
    """Tells a failure in one line on stderr; returns its exit code. Raises it again under --debug."""
    if isinstance(error, BrokenPipeError) and _nobody_reads_stdout():
        return PIPE_CLOSED
    if "--debug" in words:
        raise error
    command = " ".join(["turnlake", *words[:1]])
    if is_disk_full(error):
        reason = " ".join(str(error).split())
        note(f"turnlake: {command} failed, for the disk is full. Free some space and run it again. ({reason})")
        return INTERNAL_FAILURE
    if OUT_OF_MEMORY in str(error):
        note(f"turnlake: {command} failed, for its memory is used up. {_more_memory(words)}")
        return UsageError.exit_code
    if isinstance(error, TurnlakeError):
        note(f"turnlake: {error}")
        for line in getattr(error, "__notes__", ()):
            note(f"  {line}")
        return error.exit_code
    reason = " ".join(str(error).split())
    note(f"turnlake: {command} failed: {type(error).__name__}: {reason}; --debug shows where")
    return INTERNAL_FAILURE


def _more_memory(words: Sequence[str]) -> str:
    if words[:1] and words[0] in TAKE_MEMORY:
        return "Give it more by --memory, or fewer --threads."
    return "It takes no --memory: free some."


def is_disk_full(error: BaseException | None) -> bool:
    """Whether a failure, or what it came of, is that of a disk or quota that is used up."""
    while error is not None:
        # DuckDB tells it in words only.
        if getattr(error, "errno", None) in DISK_FULL or os.strerror(errno.ENOSPC) in str(error):
            return True
        error = error.__cause__
    return False


def _nobody_reads_stdout() -> bool:
    """Whether the reader of stdout is gone (`| head`); if so, the flush at exit is spared a second failure."""
    poll = select.poll()
    poll.register(STDOUT, 0)
    if not poll.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    return True
