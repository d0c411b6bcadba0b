"""The command `publish`: the Parquet of the lake to object storage."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from turnlake.commands.model import add_limits

if TYPE_CHECKING:
    from turnlake.publish.publish import Outcome
    from turnlake.publish.target import Target

HELP = "upload the Parquet of the lake, texts included, to object storage; only what is new, the manifest last"
EXAMPLE = "turnlake publish s3://bucket/lake"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    parser.add_argument(
        "url",
        metavar="URL",
        help="s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or file:///FOLDER, empty or published to before; "
        "docs/object-storage.md tells its options and those of the environment",
    )
    add_limits(parser)


def run(args: argparse.Namespace) -> int:
    """Publishes. Raises LakeError without a lake, UsageError for a bad URL, DeliveryError where the store fails."""
    from turnlake.console import note, plain, print_json, progress
    from turnlake.errors import UsageError
    from turnlake.sources.remote import is_url

    if not is_url(args.url):
        raise UsageError(f"{args.url!r} is no URL: write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or file:///FOLDER")
    from turnlake.publish.publish import publish
    from turnlake.publish.target import open_target

    target = open_target(args.url)
    with progress("publishing", None, quiet=args.quiet) as advance:
        outcome = publish(
            args.lake,
            target,
            memory=args.memory,
            threads=args.threads,
            on_wait=lambda line: note(line, quiet=args.quiet),
            on_table=advance,
        )
    if args.json:
        print_json(as_json(target, outcome))
    elif not args.quiet:
        for line in summary(target, outcome):
            print(plain(line))
    return 0


def as_json(target: Target, outcome: Outcome) -> dict[str, object]:
    """What was done, as one document."""
    return {
        "url": target.url,
        "id": outcome.manifest["id"],
        "state": outcome.manifest["state"],
        "is_news": outcome.is_news,
        "uploaded": [{"path": file.path, "bytes": file.bytes} for file in outcome.uploaded],
        "uploaded_bytes": sum(file.bytes for file in outcome.uploaded),
        "copied": list(outcome.copied),
        "removed": list(outcome.removed),
    }


def summary(target: Target, outcome: Outcome) -> list[str]:
    """What was done, in a few lines."""
    tables = outcome.manifest["tables"]
    files = [file for table in tables.values() for file in table]
    size = sum(file["bytes"] for file in files)
    sent = sum(file.bytes for file in outcome.uploaded)
    return [
        f"published {target.url}: state {outcome.manifest['state']}, as {outcome.manifest['id']}",
        f"holds     {len(tables)} tables, {len(files)} files, {size:,} bytes, texts of the sessions included",
        f"uploaded  {len(outcome.uploaded)} files, {sent:,} bytes; removed {len(outcome.removed)} of older states",
    ]
