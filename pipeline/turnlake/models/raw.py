"""The schema raw: views over the Parquet files of one state.

The views name the files by macros, which hold the absolute paths: another state needs other macros, and the views stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from turnlake.findings import INVARIANTS
from turnlake.models.comments import Described
from turnlake.models.text import path_list, quoted
from turnlake.rows.tables import TABLES, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlake.lake.files import RawFiles

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
OF_A_RUN = (
    Column(
        "seq", "int", "Sequence number of the run's first chunk; of a record of an embedded stream that of its event."
    ),
    Column("ordinal", "int", "Position of a record in its embedded stream, from 0; NULL elsewhere."),
    Column("form", "text", "How the run is stored: packed or single, a line of its own; stream, in an event."),
    Column("chunk_count", "int", "Chunks in the run."),
    Column("first_token_ms", "int", "Time of the run's first delta that holds text, a tool name or arguments."),
    Column("tool_name", "text", "Tool name of tool-call deltas; NULL where the run has none."),
    Column("payload", "text", "JSON text of the line's `data` as written; NULL in an embedded stream."),
    Column(
        "dt",
        "ints",
        "Milliseconds from each chunk to the next, one less than there are chunks; NULL for a chunk stored alone.",
    ),
    Column("texts", "texts", "Text or arguments of each delta; NULL where the chunk is no delta."),
    Column("chunk", "text", "JSON text of the chunk, where it is stored alone; else NULL."),
)
OF_A_CHUNK = (
    Column("seq", "int", "Sequence number of the chunk; in an embedded stream that of the event it belongs to."),
    Column("position", "int", "Position of the chunk in its embedded stream, from 0; NULL elsewhere."),
    Column("time_ms", "int", "Time of the chunk, Unix ms."),
    Column("text", "text", "Text or arguments of a delta; NULL where the chunk is none."),
)
OF_A_FINDING = (
    SESSION_ID,
    Column("invariant", "text", "Statement of `docs/invariants.md` that is broken; NULL where it is something else."),
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
_LOGS = """
select
    l.*,
    instant(l.created_at_ms) as created_at,
    instant(l.first_event_ms) as first_event_at,
    instant(l.last_event_ms) as last_event_at
from stored_logs() as l"""
_OF_ITS_LOG = "left join stored_logs() as l using (log_id)"
# A function of the code alone, so it is not stored.
_INVARIANT = " ".join(f"when {quoted(code)} then {quoted(invariant)}" for code, invariant in INVARIANTS.items())
_FINDINGS = f"""
select t.*, l.session_id, case t.code {_INVARIANT} end as invariant
from stored_findings() as t {_OF_ITS_LOG}"""
LOADS_ABOUT = "One row per run that read logs."
RUNS_ABOUT = (
    "One row per run of stream chunks as stored: a packed row, a single chunk, or a record of an embedded stream. The "
    "columns of finish and usage are those of lines; for an embedded stream `raw.events` has them."
)
CHUNKS = Table("chunks", "One row per stream chunk, expanded from the runs they are stored in.", ())
# What the JSON of a line's data, and of a record of an embedded stream, is parsed to.
_DATA = '"dt":["BIGINT"],"texts":["VARCHAR"],"args":["VARCHAR"],"chunk":"JSON"'
_RECORD = f'"type":"VARCHAR","time0":"BIGINT","time":"BIGINT","index":"BIGINT","id":"VARCHAR","name":"VARCHAR",{_DATA}'
_TEXTS = """case
            when data.chunk is null then coalesce(data.texts, data.args)
            when chunk_type in ('text-delta', 'reasoning-delta') and json_type(data.chunk, '$.text') = 'VARCHAR'
                then [data.chunk ->> '$.text']
            when chunk_type = 'tool-call-delta' and json_type(data.chunk, '$.argumentsDelta') = 'VARCHAR'
                then [data.chunk ->> '$.argumentsDelta']
        end"""


def stored_files(files: RawFiles) -> Iterator[str]:
    """The statements that make the macros `stored_<table>()` for the views of schema raw."""
    for table in TABLES:
        yield stored_file(table, f"from read_parquet({path_list(files.tables[table])})")
    yield stored_file("loads", _loads(files.loads))


def stored_file(table: str, query: str, database: str | None = None) -> str:
    """The statement that makes one of these macros, in the database in use unless another is named."""
    return f"create or replace macro {f'{database}.main.' if database else ''}stored_{table}() as table {query}"


def raw_views(database: str | None = None) -> Iterator[str]:
    """The statements that make the views of schema raw, in the database in use unless another is named.

    All macros must be there already.
    """
    for table, _, query in _views():
        yield f"create or replace view {f'{database}.' if database else ''}raw.{table.name} as {query}"


def raw_tables() -> Iterator[Described]:
    """These views with their comments: those of the columns of their tables, and of those they add."""
    for table, more, _ in _views():
        columns = {column.name: column.about for column in (*table.columns, *more)}
        yield Described(f"raw.{table.name}", "view", table.about, columns)


def _views() -> tuple[tuple[Table, tuple[Column, ...], str], ...]:
    """Each view's table, the columns the view adds or describes anew, and its query."""
    runs = replace(TABLES["chunk_runs"], about=RUNS_ABOUT)
    return (
        (TABLES["logs"], OF_A_LOG, _LOGS),
        (TABLES["events"], OF_AN_EVENT, _EVENTS),
        (runs, (*OF_A_RUN, *OF_AN_EVENT), f"{_RUNS}\n\n{_of_its_log('runs')}"),
        (CHUNKS, _chunk_columns(), f"{_RUNS},{_CHUNKS}\n\n{_of_its_log('chunks')}"),
        (TABLES["findings"], OF_A_FINDING, _FINDINGS),
        (Table("loads", LOADS_ABOUT, LOADS), (), "from stored_loads()"),
    )


def _event_facts(log: str) -> str:
    """SQL: the columns OF_AN_EVENT of a row of `t`, whose log's row has that name."""
    return (
        f"{log}.session_id, instant(t.time_ms) as at, "
        f"coalesce(t.seq < {log}.inherited_event_count, false) as is_inherited, "
        f"coalesce(t.branch = 0 and t.seq < {log}.accepted_event_count, false) as is_accepted"
    )


def _of_its_log(rows: str) -> str:
    return f"select t.* exclude ({', '.join(_LOG_FACTS)}), {_event_facts('t')}\nfrom {rows} as t"


def _chunk_columns() -> tuple[Column, ...]:
    described = {column.name: column for column in (*TABLES["chunk_runs"].columns, *OF_A_RUN)}
    return (*(described[name] for name in RUN_FACTS), *OF_A_CHUNK, *OF_AN_EVENT)


def _text(member: str) -> str:
    """SQL: a member of a chunk, where it is a string."""
    return f"case when json_type(data.chunk, '$.{member}') = 'VARCHAR' then data.chunk ->> '$.{member}' end"


_LOG_FACTS = ("session_id", "inherited_event_count", "accepted_event_count")
_ITS_LOG = f"left join (select log_id, {', '.join(_LOG_FACTS)} from stored_logs()) using (log_id)"
_EVENTS = f"select t.*, {_event_facts('l')} from stored_events() as t {_OF_ITS_LOG}"
# Lines and embedded streams are read and parsed apart, so that who asks for one form does not pay for the other.
_RUNS = f"""
with lines as (
    select *, from_json(payload, '{{{_DATA}}}') as data
    from stored_chunk_runs()
    {_ITS_LOG}
),

streams as (
    select
        log_id,
        branch,
        seq,
        line,
        byte_offset,
        turn,
        step,
        is_provisional,
        {", ".join(_LOG_FACTS)},
        from_json(stream, '[{{{_RECORD}}}]') as records
    from stored_events()
    {_ITS_LOG}
    where stream is not null
),

records as (
    select * exclude (records), unnest(range(len(records))) as ordinal, unnest(records) as data
    from streams
),

typed_records as (
    select
        *,
        coalesce({_text("type")}, replace(data.type, '-chunks', '-delta')) as chunk_type,
        coalesce(data.time0, data.time) as time_ms
    from records
),

told_records as (
    select
        *,
        {_TEXTS} as texts,
        nullif(list_position(list_transform(texts, lambda one: one <> ''), true), 0) as first_text,
        case
            when data.chunk is null then data.index
            when json_type(data.chunk, '$.index') = 'UBIGINT' then try_cast(data.chunk ->> '$.index' as bigint)
        end as block_index,
        case when chunk_type = 'tool-call-delta' then coalesce(data.id, {_text("id")}) end as call_id,
        case when call_id is not null then coalesce(data.name, {_text("name")}) end as tool_name
    from typed_records
),

runs as (
    select
        * exclude (data),
        null::bigint as ordinal,
        data.dt as dt,
        {_TEXTS} as texts,
        data.chunk::varchar as chunk
    from lines

    union all by name

    select
        * exclude (data, first_text),
        'stream' as form,
        coalesce(len(texts), 1) as chunk_count,
        time_ms + coalesce(list_sum(data.dt), 0)::bigint as last_time_ms,
        case
            when tool_name <> '' then time_ms
            when first_text is not null then time_ms + coalesce(list_sum(data.dt[:first_text - 1]), 0)::bigint
        end as first_token_ms,
        data.dt as dt,
        data.chunk::varchar as chunk
    from told_records
)"""
# Chunk k of a run: k further in seq (in position, where the stream is embedded), the first k gaps later. Sums of
# slices of the lists would cost as much as the square of their lengths. Windows let pass what is asked of the columns
# they partition by, so a query for one session expands no other.
_CHUNKS = f"""

placed_runs as (
    select
        *,
        case
            when form = 'stream'
                then sum(chunk_count) over (partition by session_id, log_id, line order by ordinal) - chunk_count
        end as first_position
    from runs
),

gaps as (
    select
        {", ".join((*RUN_FACTS, *_LOG_FACTS))},
        ordinal,
        seq as first_seq,
        first_position,
        unnest(range(chunk_count)) as k,
        unnest(list_prepend(time_ms, coalesce(dt, []))) as gap,
        unnest(texts) as text
    from placed_runs
),

chunks as (
    select
        * exclude (ordinal, first_seq, first_position, k, gap),
        case when form = 'stream' then first_seq else first_seq + k end as seq,
        (first_position + k)::bigint as position,
        (sum(gap) over (partition by session_id, log_id, line, ordinal order by k))::bigint as time_ms
    from gaps
)"""


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
