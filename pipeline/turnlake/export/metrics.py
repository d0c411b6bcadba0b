"""Batches of rows -> the same without what people wrote: columns kept, hashed or dropped as declared."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from turnlake.export.columns import COLUMNS, Action, Rule
from turnlake.export.texts import map_texts
from turnlake.hashing import Hasher

# `<session>/<turn>.<step>.<attempt>` or `<session>/compaction/<ordinal>`, and the branch above 0. Turn and step may
# be unknown.
_ATTEMPT = re.compile(r"(.+)(/(?:compaction/\d+|\d*\.\d*\.\d+)(?:/b\d+)?)", re.ASCII | re.DOTALL)


class Metrics:
    """Hides texts under one key; counts nothing, for what it does follows from the columns alone."""

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher

    def columns(self, table: str, names: list[str]) -> list[str]:
        """Those columns of a table that are exported, in order."""
        rules = COLUMNS.get(table, {})
        return [name for name in names if rules.get(name, Action.DROP) is not Action.DROP]

    def batch(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows with their exported columns, hashed where declared. KeyError for a column without a rule."""
        names = self.columns(table, rows.column_names)
        return pa.table({name: self._column(COLUMNS[table][name], rows[name]) for name in names})

    def _column(self, rule: Rule, values: pa.ChunkedArray) -> pa.ChunkedArray:
        if rule in (Action.KEEP, Action.OWN):
            return values
        hidden = self._hidden(rule)
        return map_texts(values, lambda texts: _each_once(texts, hidden))

    def _hidden(self, rule: Rule) -> Callable[[str], str]:
        hashed = self._hasher.hashed
        if isinstance(rule, frozenset):
            return lambda text: text if text in rule else hashed(text)
        return self._attempt if rule is Action.ATTEMPT else hashed

    def _attempt(self, text: str) -> str:
        """An attempt's id with its session hashed; hashed whole where it has another form."""
        parts = _ATTEMPT.fullmatch(text)
        return self._hasher.hashed(parts[1]) + parts[2] if parts else self._hasher.hashed(text)


def _each_once(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Change applied to each text that differs from those before it."""
    known = pc.dictionary_encode(texts)
    changed = pa.array([change(text) for text in known.dictionary.to_pylist()], pa.string())
    return changed.take(known.indices)
