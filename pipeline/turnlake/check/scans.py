"""The tables of a database that a check reads: what it asks of them, for some sessions at a time.

Content is cut out of payloads, which lie in Parquet files of all sessions. DuckDB brings a condition on sessions as
far as these files only where it is about their own column, and ids can't tell row groups of several logs apart: so the
views on the way there are made anew for some logs and the files that hold them. Payloads are held in memory, not too
many at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from turnlake.check.outcome import Session
from turnlake.check.weight import HEAVY, parsed_at_once
from turnlake.format.values import MAX_SAFE
from turnlake.messages.surface import NODE_SINCE
from turnlake.models.changes import of_these
from turnlake.models.model import LAYERS
from turnlake.models.raw import stored_file
from turnlake.models.text import path_list

TRANSCRIPT = """
select session_id, seq, order_key, shadowed_by_seq, type, message_id, role, source_kind, content
from marts.transcript
semi join {chosen} using (session_id)
where seq between {first} and {last}
"""
MESSAGES = """
select session_id, position, seq, message_id, role, source_kind, content
from marts.messages
semi join {chosen} using (session_id)
where seq between {first} and {last}
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
# The views between the files and what is read, each behind those it reads.
_UP_TO_PAYLOADS = ("raw.events", "staging.payloads")
_ABOVE_PAYLOADS = ("marts.transcript", "marts.messages")
_SCHEMAS = ("raw", *LAYERS)
_CHOSEN = "memory.main.chosen"
_IN_FILES = "memory.staging.payloads_in_files"
_HELD = "memory.main.payloads_held"
# Pieces of about the same size, one behind the other: the first seq of each.
_FIRST_SEQS = """
with sizes as (
    select seq, sum(strlen(payload)) as size
    from {payloads}
    where {some}
    group by seq
),

placed as (
    select seq, floor({count} * (sum(size) over (order by seq) - size) / sum(size) over ()) as piece
    from sizes
)

select min(seq)
from placed
group by piece
order by all
"""
# Rows of text at a time: all together may be more than fits into memory.
_ROWS = 10_000
# Bytes of the lines whose payloads are held at a time, and where each of these is long.
MOST_HELD = 96 << 20
MOST_HEAVY_HELD = MOST_HELD // 4


class Scans:
    """Reads the rows of some sessions, in the block of `scanning`."""

    def __init__(self, db: duckdb.DuckDBPyConnection, sessions: Collection[Session], most_held: int) -> None:
        self._db = db
        self._between = (0, MAX_SAFE)
        self._pieces = ceil(sum(session.decoded_bytes for session in sessions) / most_held)
        log_ids = of_these("log_id", [session.log_id for session in sessions])
        self._some = f"{log_ids} and {of_these('type', ('request/header', *NODE_SINCE))}"
        # Ids are text from logs: better no part of a query.
        names = pa.array([session.session_id for session in sessions], pa.string())
        db.register("chosen_now", pa.table({"session_id": names}))
        db.execute(f"create or replace table {_CHOSEN} as from chosen_now")

    def __call__(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of one of the queries above; content comes as bytes."""
        first, last = self._between
        text = query.format(chosen=_CHOSEN, first=first, last=last)
        for batch in self._db.sql(text).to_arrow_reader(_ROWS):
            columns = [
                (column.view(pa.binary()) if name == "content" else column).to_pylist()
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield from zip(*columns, strict=True)

    def pieces(self) -> Iterator[None]:
        """While each is at hand, TRANSCRIPT, MESSAGES and HEADERS tell of some events; of all of them in the end."""
        for first, last in self._ranges():
            self._between = (first, last)
            held = f"from {_IN_FILES} where {self._some} and seq between {first} and {last}"
            # Replaced, the piece before would be held until this one is there.
            self._db.execute(f"drop table {_HELD}")
            self._db.execute(f"create table {_HELD} as {held}")
            yield

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """First and last seq of each piece."""
        firsts = [0]
        if self._pieces > 1:
            query = _FIRST_SEQS.format(payloads=_IN_FILES, some=self._some, count=self._pieces)
            firsts += [seq for (seq,) in self._db.execute(query).fetchall()[1:]]
        return zip(firsts, [*(seq - 1 for seq in firsts[1:]), MAX_SAFE], strict=True)


@contextmanager
def scanning(db: duckdb.DuckDBPyConnection, sessions: Collection[Session], files: Collection[Path]) -> Iterator[Scans]:
    """Within the block, payloads and the views upon them hold what of these sessions is in these files of events."""
    [(database,)] = db.execute("select current_database()").fetchall()
    of_database = "from duckdb_views() where database_name = current_database()"
    views = dict(db.execute(f"select schema_name || '.' || view_name, sql {of_database}").fetchall())
    for schema in _SCHEMAS:
        db.execute(f"create schema if not exists memory.{schema}")
    # What is created goes to the first of the path, and names are looked up there first.
    path = [f"{place}.{schema}" for place in ("memory", database) for schema in ("main", *LAYERS)]
    db.execute(f"set search_path = '{','.join(path)}'")
    try:
        db.execute(stored_file("events", f"from read_parquet({path_list(files)})", "memory"))
        _make_anew(db, views, _UP_TO_PAYLOADS)
        db.execute(f"alter view memory.staging.payloads rename to {_IN_FILES.rpartition('.')[2]}")
        db.execute(f"create or replace table {_HELD} as from {_IN_FILES} limit 0")
        db.execute(f"create view memory.staging.payloads as from {_HELD}")
        _make_anew(db, views, _ABOVE_PAYLOADS)
        yield Scans(db, sessions, MOST_HEAVY_HELD if parsed_at_once(files) > HEAVY else MOST_HELD)
    finally:
        db.execute(f"use {database}")
        for schema in _SCHEMAS:
            db.execute(f"drop schema if exists memory.{schema} cascade")
        db.execute("drop macro table if exists memory.main.stored_events")


def _make_anew(db: duckdb.DuckDBPyConnection, views: Mapping[str, str], names: Iterable[str]) -> None:
    """The views of these names once more, where they are looked up first; what is no view is left as it is."""
    for name in names:
        if name in views:
            db.execute(views[name])
