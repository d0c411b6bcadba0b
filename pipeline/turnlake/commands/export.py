"""`turnlake export`: a copy of the lake to share."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from turnlake.commands.model import add_limits

HELP = "write a copy to share: Parquet of marts and raw tables, without texts or without known secrets if asked for"
EXAMPLE = "turnlake export --metrics-only shared"

_PLAIN_PATH = re.compile(r"[\w./ -]+", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    parser.add_argument(
        "target", metavar="DIR", type=Path, help="folder to make; an earlier export there is replaced, nothing else is"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--metrics-only",
        action="store_true",
        help="numbers, instants and well-known names only: no messages, arguments, results or titles; "
        "paths, ids and other names hashed with the key in your config folder",
    )
    kind.add_argument(
        "--redact",
        action="store_true",
        help="everything, but secrets of the known forms replaced; best effort, see docs/sharing.md",
    )
    add_limits(parser)


def run(args: argparse.Namespace) -> int:
    """Exports. Raises LakeError without a lake, UsageError where DIR or the key can't be used."""
    from turnlake.console import note, print_json, progress
    from turnlake.export.copy import export
    from turnlake.hashing import key_file, load_hasher

    hasher = load_hasher(os.environ) if args.metrics_only else None
    with progress("exporting", None, quiet=args.quiet) as advance:
        manifest = export(
            args.lake,
            args.target,
            hasher=hasher,
            redact=args.redact,
            memory=args.memory,
            threads=args.threads,
            on_table=advance,
        )
    unclassified = sorted(
        f"{name}.{column}" for name, table in manifest["tables"].items() for column in table.get("unclassified", ())
    )
    for column in unclassified:
        note(f"left out  {column}: nothing says whether it is safe to share", quiet=args.quiet)
    if args.json:
        print_json({"dir": str(args.target), **manifest})
    else:
        from turnlake.console import plain

        for line in summary(args.target, manifest):
            print(plain(line))
        if hasher:
            print(plain(f"key       {key_file(os.environ)} (id {hasher.key_id}); keep it to yourself"))
    return 1 if args.strict and unclassified else 0


def summary(target: Path, manifest: dict[str, Any]) -> list[str]:
    """What was exported, in a few lines."""
    tables = manifest["tables"]
    files = [file for table in tables.values() for file in table["files"]]
    rows = sum(table["rows"] for table in tables.values())
    size = sum(file["bytes"] for file in files)
    lines = [
        f"exported  {target}: {manifest['mode']}, state {manifest['state']}",
        f"holds     {len(tables)} tables, {rows:,} rows, {len(files)} files, {size:,} bytes",
        f"means     {manifest['about']}",
    ]
    if manifest["mode"] == "metrics-only":
        lines.append(
            f"left out  {sum(len(table['left_out']) for table in tables.values())} columns; manifest.json names them"
        )
    if manifest["mode"] == "redacted":
        counts = sum((Counter(found) for found in manifest["redacted"].values()), Counter[str]())
        told = (
            ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
            or "nothing that looks like a secret"
        )
        lines.append(f"replaced  {told} (a secret counts once in each column that holds it)")
    return [*lines, f"next      {_query(target)}"]


def _query(target: Path) -> str:
    path = str(target / "marts" / "turns.parquet")
    if _PLAIN_PATH.fullmatch(path):
        # The same for a shell, and without the quotes between quotes that shlex makes.
        return f"""duckdb -c "from '{path}' limit 5\""""
    doubled = path.replace("'", "''")
    return f"""duckdb -c {shlex.quote(f"from '{doubled}' limit 5")}"""
