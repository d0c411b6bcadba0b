"""`turnlake prices`: what a model costs and why, and prices from elsewhere for the user's own file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnlake.prices.prices import Prices
    from turnlake.prices.rates import Rate

HELP = "show what a model costs and why, or import prices into your own file"
EXAMPLE = """turnlake prices show deepseek-v4-pro --at 2026-08-24T01:30:00Z
  turnlake prices import 'deepseek*' --from-litellm model_prices_and_context_window.json"""

BUCKETS = ("input", "output", "cache_read", "cache_write")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    from turnlake.commands.model import add_prices

    parser.add_argument("action", choices=("show", "import"), help="what to do")
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="model to show; names to import, a pattern (default: all)"
    )
    parser.add_argument("--provider", metavar="NAME", help="one route only")
    parser.add_argument("--at", metavar="INSTANT", help="such as 2026-08-24T01:30:00Z (default: now)")
    parser.add_argument("--from-litellm", metavar="FILE", type=Path, help="price map to import, a JSON file")
    parser.add_argument("--valid-from", metavar="INSTANT", help="when imported prices begin to hold (default: now)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="file to import into (default: as --prices)")
    add_prices(parser)


def run(args: argparse.Namespace) -> int:
    """Shows or imports; 1 where no card prices the model. Raises UsageError for files and options without sense."""
    return show(args) if args.action == "show" else import_prices(args)


def show(args: argparse.Namespace) -> int:
    """Prints what prices calls of the model, one column a route."""
    from turnlake.commands.steps import prices_of
    from turnlake.console import note, print_json, print_table
    from turnlake.errors import UsageError
    from turnlake.prices.rates import rate_at, routes

    if args.model is None:
        raise UsageError("`turnlake prices show` wants a MODEL")
    prices, at = prices_of(args), _instant(args.at, "--at")
    providers = [args.provider] if args.provider else routes(prices, args.model)
    rates = {provider: rate_at(prices, provider, args.model, at) for provider in providers}
    if args.json:
        print_json([_facts(provider, args.model, at, rate) for provider, rate in rates.items()])
    elif providers:
        columns = [_facts(provider, args.model, at, rate) for provider, rate in rates.items()]
        print_table(
            ("", *providers), [(key, *(facts[key] for facts in columns)) for key in columns[0] if key != "provider"]
        )
    priced = any(rate is not None for rate in rates.values())
    if not priced:
        note(f"no card in {prices.currency} prices {args.model} at {_text(at)}: its calls are unpriced")
        for line in _hints(prices, args.model):
            note(line)
    return 0 if priced else 1


def import_prices(args: argparse.Namespace) -> int:
    """Appends the cards of a price map to the user's file."""
    import os
    from fnmatch import fnmatchcase

    from turnlake.console import note, print_json
    from turnlake.errors import UsageError
    from turnlake.prices.history import add_rows
    from turnlake.prices.litellm import read_price_map
    from turnlake.prices.prices import FILE, override_file

    if args.from_litellm is None:
        raise UsageError("`turnlake prices import` wants --from-litellm FILE")
    path = args.out or override_file(args.lake, args.prices, os.environ) or args.lake / FILE
    now = _instant(None, "now")
    valid_from = now if args.valid_from is None else _instant(args.valid_from, "--valid-from")
    found = read_price_map(args.from_litellm, valid_from, now.date())
    rows = [
        row
        for row in found.rows
        if fnmatchcase(row["model"], args.model or "*") and args.provider in (None, row["provider"])
    ]
    added = add_rows(path, rows)
    counts = {"cards_added": added, "cards_unchanged": len(rows) - added, "entries_left_out": dict(found.left_out)}
    if args.json:
        print_json({"file": str(path), **counts})
        return 0
    if not args.quiet:
        print(f"{path}: {added} cards added, {len(rows) - added} unchanged")
    for reason, count in found.left_out.items():
        note(f"{count} entries of the map left out: {reason}", quiet=args.quiet)
    return 0


def _facts(provider: str, model: str, at: datetime, rate: Rate | None) -> dict[str, Any]:
    """What is told of a rate, by name; None throughout where there is none."""
    facts: dict[str, Any] = {"provider": provider, "model": model, "at": _text(at), "band": None}
    facts |= dict.fromkeys((*BUCKETS, "until", "then", "card", "why", "holds_from", "holds_to", "source", "checked_on"))
    if rate is None:
        return facts
    card = rate.card
    file = "built in" if card.price_source == "builtin" else "your own file"
    name = "exact name" if card.prefix is None else f"pattern {card.model}"
    facts |= {"band": rate.band, "until": _text(rate.until), "then": rate.then or ("no card" if rate.until else None)}
    facts |= {bucket: _number(price) for bucket, price in rate.rates.items()}
    facts |= {"card": card.id, "why": f"{name}, {file}, line {card.line}", "source": card.source}
    facts |= {"holds_from": _text(card.valid_from), "holds_to": _text(card.valid_to)}
    return facts | {"checked_on": card.checked_on and card.checked_on.isoformat()}


def _hints(prices: Prices, model: str) -> Iterator[str]:
    from turnlake.errors import nearest

    known = {card.model for card in prices.cards if card.currency == prices.currency}
    if hint := nearest(model, sorted(known - {model})):
        yield hint.strip()
    for card in prices.cards:
        if card.currency == prices.currency and card.is_for(card.provider, model):
            until = f" until {_text(card.valid_to)}" if card.valid_to else ""
            yield f"{card.provider}: card {card.id} from {_text(card.valid_from) or 'ever'}{until}"


def _instant(text: str | None, option: str) -> datetime:
    from turnlake.errors import UsageError
    from turnlake.prices.card import parse_instant

    if text is None:
        return datetime.now(UTC).replace(microsecond=0)
    try:
        return parse_instant(text, option)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _number(price: Decimal) -> str:
    return f"{price.normalize():f}"
