"""SESSION, as `show`, `trace` and `diagnose` take it: an id in the lake, or the path of a log that needs no lake."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnlake.inspect.session import Session

HELP_SESSION = "id of a session in the lake, or the beginning of one; or the path of a log file, which needs no lake"
DEFAULT_LAKE = Path("data/lake")


def number(text: str) -> int:
    """A number from 0, as events and turns have them. Raises ArgumentTypeError for anything else."""
    digits = text.removeprefix("#")
    if not digits.isascii() or not digits.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(digits)


@contextmanager
def opened_session(args: argparse.Namespace) -> Iterator[Session]:
    """The session that `args.session` names, and a database that holds it.

    A log named by its path is made into a lake that is gone afterwards, so that all is told from the same tables.
    Raises UsageError for no session or several, SourceError and LakeError where log or lake can't be read.
    """
    from turnlake.api import connect
    from turnlake.inspect.find import find_session, only_session
    from turnlake.inspect.session import Session

    if is_path(args.session):
        with tempfile.TemporaryDirectory(prefix="turnlake-") as folder:
            lake = Path(folder) / "lake"
            build_lake(args.session, lake)
            with connect(lake) as db:
                yield Session(db, only_session(db, args.session), (args.session,))
        return
    with connect(args.lake) as db:
        session_id = find_session(db, args.session)
        yield Session(db, session_id, (session_id, *lake_words(args)))


def note_cut(args: argparse.Namespace) -> None:
    """Tells how to see whole what was printed in short."""
    from turnlake.console import note

    if not args.full:
        note("long texts are cut: --full or --json shows them whole", quiet=args.quiet)


def is_path(text: str) -> bool:
    """Whether the text names a file, or a folder in a way no id is written."""
    path = Path(text)
    return path.is_file() or (path.is_dir() and ("/" in text or text in (".", "..")))


def build_lake(path: str, lake: Path) -> None:
    """A lake of what is at path, in a folder that is not there yet."""
    from turnlake.cli import command_parser
    from turnlake.commands.build import build

    build(command_parser("build").parse_all(["--lake", str(lake), "--workers", "1", "--quiet", "--", path]))


def lake_words(args: argparse.Namespace) -> tuple[str, ...]:
    """The option that names the lake again, where it is not the default one."""
    return () if args.lake == DEFAULT_LAKE else ("--lake", str(args.lake))
