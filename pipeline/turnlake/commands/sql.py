"""`turnlake sql`: a query against the lake, or the script that rebuilds its models."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from typing import TYPE_CHECKING, Any

from turnlake.console import as_text
from turnlake.models.text import reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

HELP = "run a read-only query, or print the script that rebuilds the models in a plain duckdb shell"
EXAMPLE = 'turnlake sql "select state, count(*) from marts.turns group by all"'

ROWS_AT_ONCE = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what only this command takes."""
    parser.add_argument("query", nargs="?", metavar="QUERY", help="one select; without it the script is printed")
    parser.add_argument("--csv", action="store_true", help="CSV on stdout, unknown as an empty field")


def run(args: argparse.Namespace) -> int:
    """Answers the query. Raises QueryError where the database refuses it, LakeError without a lake."""
    from turnlake.errors import UsageError

    if args.query is None:
        if args.csv or args.json:
            raise UsageError("--csv and --json want a QUERY")
        print_script(args.lake)
        return 0
    if args.csv and args.json:
        raise UsageError("--csv and --json exclude each other")
    from turnlake.api import connect

    with connect(args.lake) as db:
        names, rows = answer(db, args.query)
        if args.json:
            print_rows_as_json(names, rows)
        elif args.csv:
            print_rows_as_csv(names, rows)
        else:
            from turnlake.console import print_table

            print_table(names, rows)
    return 0


def print_script(lake_path: Path) -> None:
    """Prints the build of the current state as SQL, priced as the database is. Raises LakeError without a lake."""
    from turnlake.errors import LakeError
    from turnlake.lake.state import Lake
    from turnlake.models.script import build_script
    from turnlake.prices.prices import CURRENCY, load_prices, override_file

    lake = Lake(lake_path)
    state = None if lake.check_format() == "new" else lake.current()
    if state is None:
        raise LakeError(
            f"there is no lake at {lake_path.absolute()}: run `turnlake ingest` first, or name one by --lake"
        )
    published = lake.published()
    currency = published.inputs.get("currency", CURRENCY) if published else CURRENCY
    prices = load_prices(override_file(lake_path, None, os.environ), currency)
    sys.stdout.writelines(build_script(state.raw_files(), prices))


def answer(db: DuckDBPyConnection, query: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Names of the columns and the rows of one select. Raises QueryError for any other statement and for failures."""
    import duckdb

    from turnlake.errors import QueryError

    try:
        statements = db.extract_statements(query)
        # A COPY could still write into the lake's own folder.
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError("QUERY must be one select; `turnlake sql` prints a script for a duckdb shell")
        result = db.execute(statements[0])
    except duckdb.Error as error:
        raise QueryError(f"the query failed: {reason(error)}") from error
    return [column[0] for column in result.description or ()], _rows(result)


def print_rows_as_json(names: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Prints a JSON array with one object a line; money, instants and what is no finite number become text.

    Raises QueryError where two columns share a name: an object would hold only one of them.
    """
    from turnlake.errors import QueryError

    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise QueryError(f"two columns are named {twice[0]}: name one of them differently")
    separator = "[\n"
    for row in rows:
        text = json.dumps({name: _finite(value) for name, value in zip(names, row, strict=True)}, default=as_text)
        sys.stdout.write(separator + text)
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def print_rows_as_csv(names: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Prints CSV with a header line."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([None if value is None else as_text(value) for value in row] for row in rows)


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _rows(result: DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    import duckdb

    from turnlake.errors import QueryError

    try:
        while rows := result.fetchmany(ROWS_AT_ONCE):
            yield from rows
    except duckdb.Error as error:
        raise QueryError(f"the query failed: {reason(error)}") from error
