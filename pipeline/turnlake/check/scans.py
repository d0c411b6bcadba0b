"""The tables of a database that a check reads: what it asks of them, for some sessions at a time.

Content is cut out of payloads, which lie in Parquet files of all sessions. DuckDB brings a condition on sessions as far
as these files only where it is about their own column: so the views on the way there are made anew for some logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from turnlake.models.changes import of_these
from turnlake.models.model import LAYERS
from turnlake.projection.surface import NODE_SINCE

TRANSCRIPT = """
select session_id, seq, order_key, shadowed_by_seq, type, message_id, role, source_kind, content
from marts.transcript
semi join {chosen} using (session_id)
"""
MESSAGES = """
select session_id, position, seq, message_id, role, source_kind, content
from marts.messages
semi join {chosen} using (session_id)
"""
# Without their content, which is that of the transcript: reading it again costs as much again.
PLACES = """
select session_id, position, seq, message_id, role, source_kind
from marts.messages
semi join {chosen} using (session_id)
"""
HEADERS = """
select p.session_id, p.seq, p.payload
from staging.payloads as p
semi join {chosen} using (session_id)
inner join staging.sessions as s using (session_id)
left join intermediate.overridden_events as o
    on p.session_id = o.session_id
    and p.branch = o.branch
    and p.seq = o.seq
where p.type = 'request/header'
    and case
        when s.verdict = 'refused' then o.seq is null
        else p.branch = 0 and p.seq < s.accepted_event_count
    end
order by p.session_id, p.seq
"""
ATTEMPTS = """
select
    session_id,
    attempt_id,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    reasoning_tokens
from marts.attempts
semi join {chosen} using (session_id)
"""
CLOSERS = """
select session_id, seq, type, turn, step, call_id, call_seq, error_code, epoch_ms(event_at)
from marts.synthetic_events
semi join {chosen} using (session_id)
order by session_id, seq
"""
# The views between the payloads and what is read, each behind those it reads.
_BETWEEN = ("transcript", "messages")
_CHOSEN = "memory.main.chosen"
# Rows of text at a time: all together may be more than fits into memory.
_ROWS = 10_000


class Scans:
    """Reads the rows of some sessions."""

    def __init__(self, db: duckdb.DuckDBPyConnection, sessions: Iterable[str]) -> None:
        self._db = db
        # Ids are text from logs: better no part of a query.
        db.register("chosen_now", pa.table({"session_id": pa.array(list(sessions), pa.string())}))
        db.execute(f"create or replace table {_CHOSEN} as from chosen_now")

    def __call__(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of one of the queries above; content comes as bytes."""
        for batch in self._db.sql(query.format(chosen=_CHOSEN)).to_arrow_reader(_ROWS):
            columns = [
                (column.cast(pa.binary()) if name == "content" else column).to_pylist()
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield from zip(*columns, strict=True)


@contextmanager
def of_logs(db: duckdb.DuckDBPyConnection, log_ids: Iterable[str]) -> Iterator[None]:
    """Within the block, payloads and the views upon them hold the headers and messages of these logs alone.

    They are read once, into memory.
    """
    [(database,)] = db.execute("select current_database()").fetchall()
    found = db.execute("select view_name, sql from duckdb_views() where schema_name = 'marts'").fetchall()
    texts = [dict(found)[view] for view in _BETWEEN if view in dict(found)]
    for layer in LAYERS:
        db.execute(f"create schema if not exists memory.{layer}")
    some = f"{of_these('log_id', log_ids)} and {of_these('type', ('request/header', *NODE_SINCE))}"
    db.execute(f"create table memory.staging.payloads as from {database}.staging.payloads where {some}")
    # What is created goes to the first of the path, and names are looked up there first.
    path = [f"{place}.{schema}" for place in ("memory", database) for schema in ("main", *LAYERS)]
    db.execute(f"set search_path = '{','.join(path)}'")
    try:
        for text in texts:
            db.execute(text)
        yield
    finally:
        db.execute(f"use {database}")
        for layer in LAYERS:
            db.execute(f"drop schema if exists memory.{layer} cascade")
