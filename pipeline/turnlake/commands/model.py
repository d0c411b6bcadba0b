"""`turnlake model`: builds the SQL models over the current state and publishes them whole."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from turnlake.commands.options import whole_number

HELP = "build the SQL models, check them, publish them whole or not at all"
# Bytes. With less even a small lake has models that can't be built.
LEAST_MEMORY = 100_000_000
EXAMPLE = "turnlake model --lake data/lake --memory 500MB --threads 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    add_prices(parser)
    add_limits(parser)
    parser.add_argument("--no-wait", action="store_true", help="exit with 2 if another build of the lake is running")


def add_prices(parser: argparse.ArgumentParser) -> None:
    """Adds what decides about money, for every command that prices something."""
    parser.add_argument(
        "--prices",
        metavar="FILE",
        type=Path,
        help="price cards that come before the built-in ones (default: $TURNLAKE_PRICES, else prices.csv of the lake)",
    )
    parser.add_argument(
        "--currency", metavar="CODE", type=_currency, default="USD", help="currency of all costs (default: USD)"
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Adds what bounds the models, also for the commands that build them on the way."""
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=_size,
        help="memory the models may use before they spill to disk (default: 400MB)",
    )
    parser.add_argument(
        "--threads", metavar="N", type=whole_number, help="threads the models use (default: one a processor)"
    )


def run(args: argparse.Namespace) -> int:
    """Builds and publishes. Raises LakeError without a lake, ModelError where a model or a check fails."""
    from turnlake.commands.steps import building, current_state, prices_of, publish_models
    from turnlake.console import note, print_json, print_table
    from turnlake.errors import LakeError
    from turnlake.lake.state import Lake

    # Before the lock, which would make the folder.
    if Lake(args.lake).check_format() == "new":
        raise LakeError(
            f"there is no lake at {args.lake.absolute()}: run `turnlake build` first, or name one by --lake"
        )
    prices = prices_of(args)
    with building(args) as (lake, work):
        result = publish_models(lake, current_state(lake), work, args, prices)
    if args.json:
        print_json({"rows": result.rows, "check_count": result.check_count})
        return 0
    if not args.quiet:
        marts = [(name, count) for name, count in result.rows.items() if name.startswith("marts.")]
        print_table(("table", "rows"), marts)
    note(f"{len(result.rows)} tables built, {result.check_count} checks held", quiet=args.quiet)
    return 0


def _currency(text: str) -> str:
    """A code such as USD. Raises ArgumentTypeError for anything else."""
    if not re.fullmatch(r"[A-Z]{3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no currency code such as USD or CNY")
    return text


def _size(text: str) -> str:
    """A size with its unit, as DuckDB takes it. Raises ArgumentTypeError for anything else."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?B)", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 500MB or 2GiB")
    number, unit = re.split(r" ?(?=[KMGT])", text.upper())
    power = " KMGT".index(unit[0])
    if float(number) * (1024 if "I" in unit else 1000) ** power < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text!r} is too little for the models: give 100MB or more")
    return text
