"""Adding rows to a user's price file: what is in it stays as it is, and so do the prices of the past."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from turnlake.errors import UsageError
from turnlake.files import write_whole
from turnlake.prices.card import COLUMNS, Card, read_card
from turnlake.prices.files import read_cards

EVER = datetime.min.replace(tzinfo=UTC)
# What makes two cards price alike.
ALIKE = ("input", "output", "cache_read", "cache_write", "peak_factor", "windows", "calendar")


def add_rows(path: Path, rows: Iterable[Mapping[str, str]]) -> int:
    """Appends the rows that change a price, each with an id of its own; returns their number.

    A row that says what the newest card of its model says adds nothing. Raises UsageError where the file can't be
    used, lacks a column, or has a card of the same model from the same or a later instant.
    """
    before = path.read_bytes() if path.exists() else b""
    newest = _newest(read_cards(path, before, "override")) if before else {}
    added = [row for row in rows if _changes(path, newest, row)]
    if added:
        after = before + _text(path, before, added)
        read_cards(path, after, "override")
        _write(path, after)
    return len(added)


def _newest(cards: Iterable[Card]) -> dict[tuple[str, str, str], Card]:
    """The card of each provider, model and currency that starts last."""
    ordered = sorted(cards, key=lambda card: card.valid_from or EVER)
    return {(card.provider, card.model, card.currency): card for card in ordered}


def _changes(path: Path, newest: Mapping[tuple[str, str, str], Card], row: Mapping[str, str]) -> bool:
    card = read_card(row, "override", 0)
    before = newest.get((card.provider, card.model, card.currency))
    if before is None:
        return True
    if all(getattr(before, name) == getattr(card, name) for name in ALIKE) and before.valid_to is None:
        return False
    if before.valid_from and card.valid_from and before.valid_from >= card.valid_from:
        raise UsageError(
            f"{path}, line {before.line}: {card.provider} {card.model} has another price from that instant or a later "
            "one. Name a later one by --valid-from."
        )
    return True


def _text(path: Path, before: bytes, rows: Iterable[Mapping[str, str]]) -> bytes:
    """The rows as lines that go on the file, with its header where it is new."""
    header = next(csv.reader(io.StringIO(before.decode("utf-8-sig"))), None)
    text = io.StringIO()
    if before and not before.endswith(b"\n"):
        text.write("\n")
    writer = csv.DictWriter(text, header or COLUMNS, restval="", lineterminator="\n")
    if header is None:
        writer.writeheader()
    for row in rows:
        lost = [name for name, cell in row.items() if cell and header is not None and name not in header]
        if lost:
            raise UsageError(f"{path} has no column {lost[0]!r}, which {row['model']} needs")
        writer.writerow({name: cell for name, cell in row.items() if header is None or name in header})
    return text.getvalue().encode()


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}. Name another by --out.") from error
