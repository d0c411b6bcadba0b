"""Batches of rows -> the same without the secrets that are found in their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from turnlake.export.search import find_in, find_in_cut
from turnlake.export.secrets import Found, replaced
from turnlake.export.streams import Pieces, Place
from turnlake.export.texts import is_text, map_texts

_TEXTS = "texts"
# The start of a line, cut wherever that was long enough.
_CUT = "excerpt"
# What else holds the texts of a run, each between quotes of its own: a secret in several of them can't be found there.
_AS_WRITTEN = ("chunk", "raw_line")


class Redaction:
    """Replaces secrets and counts them, by table and form. `streams` are the runs of chunks that hold some."""

    def __init__(self, streams: Mapping[Place, Pieces]) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self._streams = streams

    def columns(self, table: str, names: list[str]) -> list[str]:
        """All columns are exported."""
        return names

    def batch(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows with their texts redacted."""
        counts = self.counts.setdefault(table, Counter())
        if table == "raw.chunk_runs":
            rows = self._with_streams(rows, counts)
        for index, field in enumerate(rows.schema):
            if is_text(field.type) and field.name != _TEXTS:
                find = find_in_cut if field.name == _CUT else find_in
                rows = rows.set_column(index, field, map_texts(rows[field.name], partial(redacted, counts, find)))
        return rows

    def _with_streams(self, rows: pa.Table, counts: Counter[str]) -> pa.Table:
        places = zip(*(rows[name].to_pylist() for name in ("log_id", "line", "ordinal")), strict=True)
        changed = {index: self._streams[place] for index, place in enumerate(places) if place in self._streams}
        if not changed:
            return rows
        for pieces in changed.values():
            counts.update(pieces.names)
        rows = _changed(rows, _TEXTS, {index: pieces.texts for index, pieces in changed.items()})
        withheld: dict[int, object] = {index: None for index, pieces in changed.items() if pieces.is_split}
        for name in _AS_WRITTEN:
            rows = _changed(rows, name, withheld)
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
