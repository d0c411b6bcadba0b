"""The command `build`: everything from logs to a published database."""

from __future__ import annotations

import argparse

from turnlake.commands import ingest, model

HELP = "read logs, build the tables, publish them: the main job"
EXAMPLE = "turnlake build ~/.dsh/sessions --lake data/lake"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command: those of `ingest` and `model`."""
    ingest.add_arguments(parser)
    model.add_prices(parser)
    parser.add_argument("--memory", metavar="SIZE", help="memory the models may use before they spill, such as 500MB")
    parser.add_argument("--threads", type=int, metavar="N", help="threads the models use (default: one a processor)")


def run(args: argparse.Namespace) -> int:
    """Builds, then prints the summary."""
    from turnlake.commands.steps import building, ingest_logs, prices_of, publish_models
    from turnlake.console import print_json

    # Before the logs: a price file that makes no sense should not cost a reading of them.
    prices = prices_of(args)
    with building(args) as (lake, work):
        done = ingest_logs(lake, work, args)
        publish_models(lake, done.state, work, args, prices)
    from turnlake.reports.summary import as_json, print_text, summarise

    summary = summarise(args.lake, done.counts)
    if args.json:
        print_json(as_json(summary))
    else:
        print_text(summary)
    return 1 if args.strict and (done.is_partial or summary.is_partial) else 0
