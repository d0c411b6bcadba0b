"""Price cards for tests, and the pricing models alone over calls made by hand."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from turnlake.models.folder import sql_folder
from turnlake.models.model import read_model
from turnlake.models.prices import price_views
from turnlake.models.script import creation, macros, schemas
from turnlake.prices.card import COLUMNS, Card
from turnlake.prices.files import read_cards
from turnlake.prices.prices import Prices, load_prices

MODELS = (
    "staging/prices",
    "staging/holidays",
    "staging/settings",
    "intermediate/price_periods",
    "intermediate/attempt_prices",
)
CALL = {
    "session_id": "varchar",
    "attempt_id": "varchar",
    "provider": "varchar",
    "model": "varchar",
    "billed_time_ms": "bigint",
    "input_tokens": "bigint",
    "output_tokens": "bigint",
    "cache_read_tokens": "bigint",
    "cache_write_tokens": "bigint",
    "total_tokens": "bigint",
}
DEFAULTS = {"id": "own", "provider": "acme", "model": "coder", "currency": "USD", "input": "1", "output": "10"}


def ms(instant: str) -> int:
    """Unix ms of an instant such as 2026-08-24T01:30:00Z, exactly."""
    at = datetime.fromisoformat(instant)
    return int(at.timestamp()) * 1000 + at.microsecond // 1000


def call(
    at: str | None, model: str = "deepseek-v4-pro", provider: str | None = "deepseek-official", **tokens: Any
) -> dict[str, Any]:
    """One call, of a million uncached prompt tokens unless tokens are given by bucket."""
    known = tokens or {"input": 1_000_000}
    buckets = {f"{name}_tokens": known.get(name) for name in ("input", "output", "cache_read", "cache_write")}
    if "output" not in known and known.get("input") is not None:
        buckets["output_tokens"] = 0
    numbers = [number or 0 for number in buckets.values()]
    total = sum(numbers) if buckets["input_tokens"] is not None else None
    time = None if at is None else ms(at)
    return {"provider": provider, "model": model, "billed_time_ms": time, **buckets, "total_tokens": total}


def price_file(*rows: Mapping[str, str]) -> bytes:
    """The content of a price file; what a row leaves out is that of a cheap flat card."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**DEFAULTS, "id": f"own-{number}", **row} for number, row in enumerate(rows))
    return text.getvalue().encode()


def own_cards(*rows: Mapping[str, str]) -> tuple[Card, ...]:
    """Cards of a user's file."""
    return read_cards(Path("own.csv"), price_file(*rows), "override")


def with_own(*rows: Mapping[str, str], currency: str = "USD") -> Prices:
    """The built-in prices and cards of a user's file."""
    builtin = load_prices(currency=currency)
    return Prices(currency, (*builtin.cards, *own_cards(*rows)), builtin.holidays)


def priced(prices: Prices, calls: Iterable[dict[str, Any]], zone: str = "UTC") -> list[dict[str, Any]]:
    """What the models say of each call, in order; `zone` is that of the reader's machine."""
    root = sql_folder()
    with duckdb.connect() as db:
        db.execute(f"set TimeZone = '{zone}'")
        for statement in (*schemas(), *(text for _, text in macros(root)), *price_views(prices)):
            db.execute(statement)
        columns = ", ".join(f"{name} {kind}" for name, kind in CALL.items())
        db.execute(f"create table intermediate.attempts ({columns})")
        rows = [{"session_id": "s", "attempt_id": f"{number:05}", **row} for number, row in enumerate(calls)]
        marks = ", ".join("?" * len(CALL))
        db.executemany(
            f"insert into intermediate.attempts values ({marks})", [[row[name] for name in CALL] for row in rows]
        )
        for name in MODELS:
            db.execute(creation(read_model(root / f"{name}.sql", db), "table"))
        result = db.execute("from intermediate.attempt_prices order by attempt_id")
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
