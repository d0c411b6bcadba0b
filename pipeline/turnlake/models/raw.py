"""The schema raw: views over the Parquet files of one state.

The views name the files by macros, which hold the absolute paths: another state needs other macros, and the views stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlake.findings import INVARIANTS
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
CHUNKS = Table("chunks", "One row per stream chunk, expanded from the runs they are stored in.", ())


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


def raw_comments() -> Iterator[str]:
    """The statements that describe these views: the columns of their tables and those they add."""
    for table, more, _ in _views():
        yield f"comment on view raw.{table.name} is {quoted(table.about)}"
        for column in (*table.columns, *more):
            yield f'comment on column raw.{table.name}."{column.name}" is {quoted(column.about)}'


def _views() -> tuple[tuple[Table, tuple[Column, ...], str], ...]:
    """Each view's table, the columns the view adds, and its query."""
    events = f"select t.*, {_event_facts('t.seq', 't.time_ms')}"
    return (
        (TABLES["logs"], OF_A_LOG, _LOGS),
        (TABLES["events"], OF_AN_EVENT, f"{events} from stored_events() as t {_OF_ITS_LOG}"),
        (TABLES["chunk_runs"], OF_AN_EVENT, f"{events} from stored_chunk_runs() as t {_OF_ITS_LOG}"),
        (CHUNKS, _chunk_columns(), _chunks()),
        (TABLES["findings"], OF_A_FINDING, _FINDINGS),
        (Table("loads", LOADS_ABOUT, LOADS), (), "from stored_loads()"),
    )


def _event_facts(seq: str, time_ms: str) -> str:
    return (
        f"l.session_id, instant({time_ms}) as at, coalesce({seq} < l.inherited_event_count, false) as is_inherited, "
        f"coalesce(branch = 0 and {seq} < l.accepted_event_count, false) as is_accepted"
    )


def _chunk_columns() -> tuple[Column, ...]:
    described = {column.name: column for column in TABLES["chunk_runs"].columns}
    return (*(described[name] for name in RUN_FACTS), *OF_A_CHUNK, *OF_AN_EVENT)


def _chunks() -> str:
    """Chunk k of a run: k further in seq (in position, where the stream is embedded), the first k gaps later."""
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
    from stored_chunk_runs()
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
    from stored_chunk_runs()
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
{_OF_ITS_LOG}"""


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
