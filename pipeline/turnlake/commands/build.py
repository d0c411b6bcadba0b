"""The command `build`: everything from logs to a published database."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from turnlake.commands import ingest, model
from turnlake.commands.options import seconds

if TYPE_CHECKING:
    from turnlake.reports.summary import Summary

HELP = "read logs, build the tables, publish them: the main job"
EXAMPLE = "turnlake build ~/.dsh/sessions --lake data/lake"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command: those of `ingest` and `model`."""
    ingest.add_arguments(parser)
    model.add_prices(parser)
    model.add_limits(parser)
    # Set by --follow behind its first build: what that one has told is not told again.
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--follow", action="store_true", help="build again and again until a signal ends it")
    parser.add_argument(
        "--every",
        type=seconds,
        default=30.0,
        metavar="TIME",
        help="pause between two builds of --follow (default: 30s)",
    )


def run(args: argparse.Namespace) -> int:
    """Builds, then prints the summary; with --follow again and again."""
    if args.follow:
        from turnlake.commands.follow import follow

        return follow(args)
    summary, is_partial = build(args)
    from turnlake.console import note, plural, print_json
    from turnlake.reports.summary import as_json, print_text, what_is_partial

    differing = summary.checks.get("mismatch", 0)
    if differing:
        note(
            f"turnlake: the tables of {plural(differing, 'session')} say something else than the logs: "
            "marts.projection_checks tells where, `turnlake check` reads the logs again"
        )
    code = 1 if differing or (args.strict and (is_partial or summary.is_partial)) else 0
    if args.json:
        print_json(as_json(summary))
    elif not args.quiet:
        print_text(summary)
    elif code and (partial := what_is_partial(summary)):
        note(f"turnlake: partial: {partial}")
    return code


def build(args: argparse.Namespace) -> tuple[Summary, bool]:
    """Brings the lake up to its logs, prices and models; the summary, and whether a log is not whole."""
    from turnlake.commands.steps import building, checked_sources, ingest_logs, is_published, prices_of, publish_models
    from turnlake.lake.files import require_whole
    from turnlake.reports.summary import keep_summary, kept_summary, summarise

    # Before the logs and the lake: what makes no sense should not cost a reading of logs, or leave an empty lake.
    prices, sources = prices_of(args), checked_sources(args)
    with building(args) as (lake, work):
        done = ingest_logs(lake, work, args, sources)
        is_new = done.is_news or not is_published(lake, done.state, prices)
        summary = None if is_new else kept_summary(lake, args.lake, done.counts)
        if is_new:
            if not done.is_news:
                require_whole(done.state)
            publish_models(lake, done.state, work, args, prices, anew=done.is_repaired)
        if summary is None:
            summary = summarise(args.lake, done.counts)
            keep_summary(lake, summary)
    return replace(summary, others=done.others), done.is_partial
