"""Batches of rows -> the same without the secrets that are found in their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from turnlake.export.search import find_in, find_in_cut
from turnlake.export.secrets import Found, replaced
from turnlake.export.streams import Pieces, Place, dumped, parsed, redacted_streams, with_texts
from turnlake.export.texts import is_text, map_texts

# The start of a line, cut wherever that was long enough.
_CUT = "excerpt"
# What holds the deltas of a stream as well, where they could not be taken out of it.
_PAYLOADS = ("payload", "sql_payload")


class Redaction:
    """Replaces secrets and counts them, by table and form. `lines` are rows of chunk_runs that hold parts of some."""

    def __init__(self, lines: Mapping[Place, Pieces]) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self._lines = lines

    def columns(self, table: str, names: list[str]) -> list[str]:
        """All columns are exported."""
        return names

    def batch(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows with their texts redacted."""
        counts = self.counts.setdefault(table, Counter())
        if table == "raw.chunk_runs":
            rows = self._without_parts(rows, counts)
        if table == "raw.events":
            rows = _with_streams(rows, counts)
        for index, field in enumerate(rows.schema):
            if is_text(field.type):
                find = find_in_cut if field.name == _CUT else find_in
                rows = rows.set_column(index, field, map_texts(rows[field.name], partial(redacted, counts, find)))
        return rows

    def _without_parts(self, rows: pa.Table, counts: Counter[str]) -> pa.Table:
        """The rows of chunk_runs without secrets that are in several deltas."""
        places = zip(rows["log_id"].to_pylist(), rows["line"].to_pylist(), strict=True)
        changed = {index: self._lines[place] for index, place in enumerate(places) if place in self._lines}
        for pieces in changed.values():
            counts.update(pieces.names)
        payloads = {
            index: with_texts(rows["payload"][index].as_py(), pieces.texts) for index, pieces in changed.items()
        }
        return _changed(_changed(rows, "payload", payloads), "raw_line", dict.fromkeys(changed))


def _with_streams(rows: pa.Table, counts: Counter[str]) -> pa.Table:
    """The rows of events without secrets that are in several deltas of their embedded streams."""
    changed = redacted_streams(text.as_py() for chunk in rows["stream"].chunks for text in chunk)
    for stream in changed.values():
        counts.update(stream.names)
    streams = {index: dumped(stream.records) for index, stream in changed.items()}
    rows = _changed(_changed(rows, "stream", streams), "raw_line", dict.fromkeys(changed))
    for name in _PAYLOADS:
        payloads = {index: parsed(rows[name][index].as_py()) for index in changed}
        whole = {index: payload for index, payload in payloads.items() if payload and payload.get("stream")}
        texts = {index: dumped(payload | {"stream": changed[index].records}) for index, payload in whole.items()}
        rows = _changed(rows, name, texts)
    return rows


def redacted(counts: Counter[str], find: Callable[[pa.Array], dict[int, list[Found]]], texts: pa.Array) -> pa.Array:
    """The texts without the secrets found in them, which are added to the counts."""
    found = find(texts)
    if not found:
        return texts
    counts.update(one.name for secrets in found.values() for one in secrets)
    new = [replaced(texts[index].as_py(), secrets) for index, secrets in found.items()]
    is_changed = pc.is_in(pa.array(range(len(texts))), pa.array(list(found)))
    return pc.replace_with_mask(texts, is_changed, pa.array(new, texts.type))


def _changed(rows: pa.Table, name: str, values: Mapping[int, object]) -> pa.Table:
    if not values:
        return rows
    index = rows.schema.get_field_index(name)
    cells = [values.get(at, cell) for at, cell in enumerate(rows[name].to_pylist())]
    return rows.set_column(index, rows.schema.field(index), pa.array(cells, rows.schema.field(index).type))
