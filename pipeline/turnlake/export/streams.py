"""Secrets in streams of chunks: a model writes a key in several deltas, and none of them holds it whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from turnlake.export.search import find_in
from turnlake.export.secrets import Found, mark
from turnlake.models.text import path_list

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# log_id, line, ordinal: what tells a run of chunks.
Place = tuple[str, int, int | None]
# The runs of one block, each with its place and its texts.
Stream = list[tuple[Place, list[str | None]]]
_ROWS_AT_ONCE = 2_000
_CHARS_AT_ONCE = 4 << 20


class Pieces(NamedTuple):
    """The texts of a run without secrets; the names of those that began in it; whether one is in several texts."""

    texts: list[str | None]
    names: tuple[str, ...]
    is_split: bool


def redacted_streams(db: DuckDBPyConnection, files: Sequence[Path]) -> dict[Place, Pieces]:
    """The runs in these files of `chunk_runs` that hold a part of a secret, as they are without it.

    The deltas of one content block of one attempt are searched as one text.
    """
    return {place: pieces for streams in _batches(db, files) for place, pieces in _redacted(streams)}


def _batches(db: DuckDBPyConnection, files: Sequence[Path]) -> Iterator[list[Stream]]:
    """All streams, as many at a time as make some text: each search has a cost of its own."""
    batch: list[Stream] = []
    chars = 0
    for _, runs in groupby(_runs(db, files), key=lambda run: run[0]):
        batch.append([(place, texts) for _, place, texts in runs])
        chars += len(_joined(batch[-1]))
        if chars >= _CHARS_AT_ONCE:
            yield batch
            batch, chars = [], 0
    yield batch


def _joined(stream: Stream) -> str:
    return "".join(text or "" for _, texts in stream for text in texts)


def _runs(db: DuckDBPyConnection, files: Sequence[Path]) -> Iterator[tuple[Any, Place, list[str | None]]]:
    """Each run with deltas: the block it belongs to, its place, its texts; in order, the runs of a block together.

    A block ends where another of its index starts; that of a stream embedded in an event ends with it.
    """
    result = db.execute(
        f"""
        with runs as (
            select
                log_id, branch, turn, step, case when form = 'stream' then line end as event_line, block_index,
                count_if(chunk_type = 'block-start') over (
                    partition by log_id, branch, turn, step, block_index order by line, ordinal
                ) as block,
                chunk_type, line, ordinal, texts
            from read_parquet({path_list(files)})
        )
        select
            {{'log_id': log_id, 'branch': branch, 'turn': turn, 'step': step, 'event_line': event_line,
            'block_index': block_index, 'block': block, 'chunk_type': chunk_type}}::varchar as stream,
            log_id, line, ordinal, texts
        from runs
        where texts is not null
        order by log_id, branch, turn, step, event_line, block_index, block, chunk_type, line, ordinal
        """
    )
    while rows := result.fetchmany(_ROWS_AT_ONCE):
        for stream, log_id, line, ordinal, texts in rows:
            yield stream, (log_id, line, ordinal), texts


def _redacted(streams: Sequence[Stream]) -> Iterator[tuple[Place, Pieces]]:
    """The runs of these streams that change."""
    found = find_in(pa.array(map(_joined, streams), pa.string()))
    for index, secrets in found.items():
        start = 0
        for place, texts in streams[index]:
            end = start + sum(len(text or "") for text in texts)
            here = [one for one in secrets if one.start < end and one.end > start]
            if here:
                yield place, _without(here, texts, start)
            start = end


def _without(found: Sequence[Found], texts: Sequence[str | None], at: int) -> Pieces:
    """The texts, the first of which starts at that place of the stream, without these secrets."""
    bounds = list(accumulate((len(text or "") for text in texts), initial=at))
    new = [text and _cut(text, start, found) for text, start in zip(texts, bounds, strict=False)]
    names = tuple(one.name for one in found if one.start >= at)
    is_split = any(bound > one.start and bound < one.end for one in found for bound in bounds)
    return Pieces(new, names, is_split)


def _cut(text: str, at: int, found: Sequence[Found]) -> str:
    """A text that starts at that place, without its parts of the secrets; the mark stands where a secret begins."""
    parts, done = [], 0
    for one in found:
        start, end = max(one.start - at, 0), min(one.end - at, len(text))
        if start < end:
            parts += [text[done:start], mark(one.name) if one.start >= at else ""]
            done = end
    return "".join((*parts, text[done:]))
