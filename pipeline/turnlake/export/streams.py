"""Secrets in streams of chunks: a model writes a key in several deltas, and none of them holds it whole.

What one delta shows by itself is found in its JSON like any other secret, so only the others are told here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from turnlake.export.search import find_in
from turnlake.export.secrets import Found, find, mark
from turnlake.format.values import BadRecord, Object
from turnlake.models.text import path_list
from turnlake.rows.payload import json_text
from turnlake.rows.stored import parse

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

P = TypeVar("P", bound=Hashable)
# log_id and line of a row of chunk_runs.
Place = tuple[str, int]
# The runs of one block of content in order, each with its place and the texts of its deltas.
Block = list[tuple[P, list[str]]]
_ROWS_AT_ONCE = 2_000
_CHARS_AT_ONCE = 4 << 20
# Where the deltas of a run, and of a chunk that stands alone, have their texts.
_LISTS = ("texts", "args")
_TEXTS = {"text-delta": "text", "reasoning-delta": "text", "tool-call-delta": "argumentsDelta"}


class Pieces(NamedTuple):
    """The texts of a run without secrets, as many as before, and the names of those that began in it."""

    texts: list[str]
    names: tuple[str, ...]


class Redacted(NamedTuple):
    """An embedded stream without secrets, and the names of what was in it."""

    records: list[Object]
    names: tuple[str, ...]


def redacted_lines(db: DuckDBPyConnection, files: Sequence[Path]) -> dict[Place, Pieces]:
    """The rows in these files of `chunk_runs` that hold a part of a secret that is in several deltas."""
    return dict(_redacted(_blocks_of_lines(db, files)))


def redacted_streams(streams: Iterable[str | None]) -> dict[int, Redacted]:
    """The embedded streams that hold a secret in several deltas, by their index."""
    streams = list(streams)
    changed: dict[int, dict[int, Pieces]] = {}
    for (index, number), pieces in _redacted(_blocks_of_streams(streams)):
        changed.setdefault(index, {})[number] = pieces
    return {index: _with_pieces(streams[index], pieces) for index, pieces in sorted(changed.items())}


def with_texts(payload: str, texts: Sequence[str]) -> str:
    """The data of a line with other texts in its deltas."""
    return dumped(_put(parsed(payload), texts))


def parsed(text: str | None) -> Any:
    """The value of a JSON text; None where there is none, or no JSON."""
    try:
        return None if text is None else parse(text)
    except BadRecord:
        return None


def dumped(value: Any) -> str:
    """JSON text of a value, as the harness would write it."""
    return json_text(value).decode()


def _blocks_of_lines(db: DuckDBPyConnection, files: Sequence[Path]) -> Iterator[Block[Place]]:
    """The blocks of chunks that have lines of their own. A block ends where another of its index starts."""
    result = db.execute(
        f"""
        with runs as (
            select
                log_id, branch, turn, step, block_index, chunk_type, line, payload,
                count_if(chunk_type = 'block-start') over (
                    partition by log_id, branch, turn, step, block_index order by line
                ) as block
            from read_parquet({path_list(files)})
        )
        select
            {{'log_id': log_id, 'branch': branch, 'turn': turn, 'step': step, 'block_index': block_index,
            'block': block, 'chunk_type': chunk_type}}::varchar as block,
            log_id, line, payload
        from runs
        where list_contains($1, chunk_type)
        order by log_id, branch, turn, step, block_index, runs.block, chunk_type, line
        """,
        [list(_TEXTS)],
    )

    def rows() -> Iterator[tuple[str, Place, str]]:
        while some := result.fetchmany(_ROWS_AT_ONCE):
            yield from ((block, (log_id, line), payload) for block, log_id, line, payload in some)

    for _, runs in groupby(rows(), key=lambda row: row[0]):
        yield [(place, _texts(parsed(payload))) for _, place, payload in runs]


def _blocks_of_streams(streams: Iterable[str | None]) -> Iterator[Block[tuple[int, int]]]:
    """The blocks of embedded streams; a run's place is the index of its stream and its own number in that."""
    for index, stream in enumerate(streams):
        blocks: dict[Hashable, Block[tuple[int, int]]] = {}
        starts: dict[Hashable, int] = {}
        for number, record in enumerate(parsed(stream) or ()):
            chunk = record.get("chunk") or record
            kind, block = chunk.get("type"), chunk.get("index")
            if kind == "block-start":
                starts[str(block)] = number
            if texts := _texts(record):
                key = (kind.removesuffix("-chunks").removesuffix("-delta"), str(block), starts.get(str(block)))
                blocks.setdefault(key, []).append(((index, number), texts))
        yield from blocks.values()


def _texts(run: Any) -> list[str]:
    """The texts of the deltas in the data of a line, or in a record of an embedded stream; none where it has none."""
    for name in _LISTS:
        if name in run:
            return list(run[name])
    chunk = run.get("chunk") or {}
    text = chunk.get(_TEXTS[chunk["type"]]) if chunk.get("type") in _TEXTS else None
    return [text] if isinstance(text, str) else []


def _put(run: Any, texts: Sequence[str]) -> Any:
    """The same run with these texts in place of its own."""
    for name in _LISTS:
        if name in run:
            return run | {name: list(texts)}
    return run | {"chunk": run["chunk"] | {_TEXTS[run["chunk"]["type"]]: texts[0]}}


def _with_pieces(stream: str | None, pieces: Mapping[int, Pieces]) -> Redacted:
    records = [
        _put(record, pieces[number].texts) if number in pieces else record
        for number, record in enumerate(parsed(stream))
    ]
    return Redacted(records, tuple(name for one in pieces.values() for name in one.names))


def _redacted(blocks: Iterable[Block[P]]) -> Iterator[tuple[P, Pieces]]:
    """The runs of these blocks that change; the texts of a block are searched as one."""
    for some in _batches(blocks):
        found = find_in(pa.array(map(_joined, some), pa.string()))
        for index, secrets in found.items():
            yield from _of_block(some[index], secrets)


def _batches(blocks: Iterable[Block[P]]) -> Iterator[list[Block[P]]]:
    """The blocks, as many at a time as make some text: each search has a cost of its own."""
    batch: list[Block[P]] = []
    chars = 0
    for block in blocks:
        batch.append(block)
        chars += sum(len(text) for _, texts in block for text in texts)
        if chars >= _CHARS_AT_ONCE:
            yield batch
            batch, chars = [], 0
    yield batch


def _joined(block: Block[P]) -> str:
    return "".join(text for _, texts in block for text in texts)


def _of_block(block: Block[P], secrets: Sequence[Found]) -> Iterator[tuple[P, Pieces]]:
    start = 0
    for place, texts in block:
        end = start + sum(map(len, texts))
        here = [one for one in secrets if one.start < end and one.end > start]
        if here and not _shows(texts, start, here):
            yield place, _without(here, texts, start)
        start = end


def _shows(texts: Sequence[str], at: int, found: Sequence[Found]) -> bool:
    """Whether these secrets are found in the texts one by one, the first of which starts at that place, too."""
    alone = {(start + one.start, start + one.end) for text, start in _placed(texts, at) for one in find(text)}
    return alone.issuperset((one.start, one.end) for one in found)


def _without(found: Sequence[Found], texts: Sequence[str], at: int) -> Pieces:
    """The texts, the first of which starts at that place of the block, without these secrets."""
    new = [_cut(text, start, found) for text, start in _placed(texts, at)]
    return Pieces(new, tuple(one.name for one in found if one.start >= at))


def _placed(texts: Sequence[str], at: int) -> Iterator[tuple[str, int]]:
    """Each text with its place in the block."""
    return zip(texts, accumulate(map(len, texts), initial=at), strict=False)


def _cut(text: str, at: int, found: Sequence[Found]) -> str:
    """A text that starts at that place, without its parts of the secrets; the mark stands where a secret begins."""
    parts, done = [], 0
    for one in found:
        start, end = max(one.start - at, 0), min(one.end - at, len(text))
        if start < end:
            parts += [text[done:start], mark(one.name) if one.start >= at else ""]
            done = end
    return "".join((*parts, text[done:]))
