"""The schema raw: views over the Parquet files of one state, by absolute path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlake.models.text import path_list, quoted
from turnlake.parquet.tables import TABLES, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlake.parquet.rawfiles import RawFiles

SESSION_ID = Column("session_id", "text", "Session the log holds; NULL where no log could be made out.")
OF_AN_EVENT = (
    SESSION_ID,
    Column("at", "text", "Time of the event; NULL where time_ms is no instant of the years 1 to 9999."),
    Column("is_inherited", "bool", "The event is a part of the prefix copied from the parent session."),
    Column("is_accepted", "bool", "The harness would accept the event."),
)
OF_A_LOG = (
    Column("created_at", "text", "Time the session was created, by its header."),
    Column("first_event_at", "text", "Smallest time of an own event."),
    Column("last_event_at", "text", "Largest time of an own event."),
)
OF_A_CHUNK = (
    Column("seq", "int", "Sequence number of the chunk; in an embedded stream that of the event it belongs to."),
    Column("position", "int", "Position of the chunk in its embedded stream, from 0; NULL elsewhere."),
    Column("time_ms", "int", "Time of the chunk, Unix ms."),
    Column("text", "text", "Text or arguments of a delta; NULL where the chunk is none."),
)
# Of a run, told the same of each of its chunks.
RUN_FACTS = (
    *("log_id", "branch", "line", "byte_offset", "is_provisional", "form", "turn", "step"),
    *("chunk_type", "block_index", "call_id", "tool_name", "chunk"),
)
LOADS = (
    Column("started_at", "text", "When the run began."),
    Column("finished_at", "text", "When it ended."),
    Column("command", "text", "Command that ran."),
    Column("logs_seen", "int", "Logs found."),
    Column("logs_read", "int", "Logs read, in whole or in part."),
    Column("logs_unchanged", "int", "Logs not opened, since nothing about them changed."),
    Column("logs_refused", "int", "Logs the harness would refuse."),
    Column("events_added", "int", "Events new to the lake, chunks expanded."),
    Column("read", "text", "JSON text: what was read of each log."),
)
LOADS_ABOUT = "One row per run that read logs."
CHUNKS = Table("chunks", "One row per stream chunk, expanded from the runs they are stored in.", ())


def raw_views(files: RawFiles) -> Iterator[str]:
    """The statements that make the views of schema raw, with their comments. The macros must be there already."""
    logs = _parquet(files.tables["logs"])
    yield from _view(
        TABLES["logs"],
        OF_A_LOG,
        "select l.*, instant(l.created_at_ms) as created_at, instant(l.first_event_ms) as first_event_at, "
        f"instant(l.last_event_ms) as last_event_at from {logs} as l",
    )
    for table in (TABLES["events"], TABLES["chunk_runs"]):
        query = f"select t.*, {_event_facts('t.seq', 't.time_ms')} from {_parquet(files.tables[table.name])} as t"
        yield from _view(table, OF_AN_EVENT, f"{query} left join {logs} as l using (log_id)")
    yield from _view(CHUNKS, _chunk_columns(), _chunks(files.tables["chunk_runs"], logs))
    findings = f"select t.*, l.session_id from {_parquet(files.tables['findings'])} as t"
    yield from _view(TABLES["findings"], (SESSION_ID,), f"{findings} left join {logs} as l using (log_id)")
    yield from _view(Table("loads", LOADS_ABOUT, LOADS), (), _loads(files.loads))


def _parquet(paths: tuple[Path, ...]) -> str:
    return f"read_parquet({path_list(paths)})"


def _event_facts(seq: str, time_ms: str) -> str:
    return (
        f"l.session_id, instant({time_ms}) as at, coalesce({seq} < l.inherited_event_count, false) as is_inherited, "
        f"coalesce(branch = 0 and {seq} < l.accepted_event_count, false) as is_accepted"
    )


def _chunk_columns() -> tuple[Column, ...]:
    described = {column.name: column for column in TABLES["chunk_runs"].columns}
    return (*(described[name] for name in RUN_FACTS), *OF_A_CHUNK, *OF_AN_EVENT)


def _chunks(paths: tuple[Path, ...], logs: str) -> str:
    """Chunk k of a run: k further in seq (in position, where the stream is embedded), the first k gaps later."""
    runs = _parquet(paths)
    facts = ", ".join(RUN_FACTS)
    return f"""
with first_positions as (
    select
        log_id,
        branch,
        seq,
        ordinal,
        (sum(chunk_count) over (partition by log_id, branch, seq order by ordinal) - chunk_count)::bigint
            as first_position
    from {runs}
    where form = 'stream'
),

chunks as (
    select
        {facts},
        seq as first_seq,
        first_position,
        unnest(range(chunk_count)) as k,
        unnest(list_reduce(coalesce(dt, []), lambda times, gap: list_append(times, times[-1] + gap), [time_ms]))
            as time_ms,
        unnest(texts) as text
    from {runs}
    left join first_positions using (log_id, branch, seq, ordinal)
),

placed as (
    select
        * exclude (first_seq, first_position, k),
        case when form = 'stream' then first_seq else first_seq + k end as seq,
        first_position + k as position
    from chunks
)

select t.*, {_event_facts("t.seq", "t.time_ms")}
from placed as t
left join {logs} as l using (log_id)"""


def _loads(path: Path | None) -> str:
    types = {"text": "varchar", "int": "bigint"}
    columns = {column.name: types[column.type] for column in LOADS} | dict.fromkeys(
        ("started_at", "finished_at"), "timestamptz"
    )
    if path is None or not path.exists():
        return f"select {', '.join(f'null::{type_} as {name}' for name, type_ in columns.items())} where false"
    spec = ", ".join(f"{name}: {quoted(type_)}" for name, type_ in columns.items())
    lines = f"read_json({quoted(str(path))}, format = 'newline_delimited', ignore_errors = true, columns = {{{spec}}})"
    # A build that died while it wrote its line left half of one, until the next build cuts it off.
    return f"select * from {lines} where started_at is not null"


def _view(table: Table, more: tuple[Column, ...], query: str) -> Iterator[str]:
    """A view and its comments: of the table's own columns and of those the view adds."""
    name = f"raw.{table.name}"
    yield f"create or replace view {name} as {query}"
    yield f"comment on view {name} is {quoted(table.about)}"
    for column in (*table.columns, *more):
        yield f'comment on column {name}."{column.name}" is {quoted(column.about)}'
