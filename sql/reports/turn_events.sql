-- All events of one turn, in the order of the log, each with its line and byte offset.
-- The turn that started last, unless `set variable session_id = '…'` or `set variable turn = 2` chose another.

with parameters as (
    select session_id, turn, start_seq, end_seq
    from marts.turns
    where session_id = coalesce(getvariable('session_id'), session_id)
        and turn = coalesce(getvariable('turn'), turn)
        and coalesce(start_seq, end_seq) is not null
    order by started_at desc nulls last, session_id, turn desc
    limit 1
),

-- A turn without an end goes on until the next one starts.
span as (
    select
        p.session_id,
        p.turn,
        coalesce(p.start_seq, p.end_seq) as start_seq,
        coalesce(p.end_seq, min(t.start_seq) - 1, 9223372036854775807) as end_seq
    from parameters as p
    left join marts.turns as t on p.session_id = t.session_id and p.start_seq < t.start_seq
    group by p.session_id, p.turn, p.start_seq, p.end_seq
),

rows_of_turn as (
    select
        e.session_id,
        p.turn,
        e.step,
        e.branch,
        e.seq,
        e.at as event_at,
        e.type,
        e.call_id,
        e.tool_name,
        coalesce(e.reason_kind, e.finish_kind, e.outcome, e.error_code) as outcome,
        coalesce(e.chunk_count, 0) as chunk_count,
        e.line,
        e.byte_offset,
        e.payload[:200] as payload
    from raw.events as e
    semi join staging.sessions using (log_id)
    inner join span as p on e.session_id = p.session_id and e.seq between p.start_seq and p.end_seq

    union all

    -- Runs of stream chunks, where chunks are events of their own.
    select
        c.session_id,
        p.turn,
        c.step,
        c.branch,
        c.seq,
        c.at,
        concat('assistant/chunk ', c.chunk_type),
        c.call_id,
        c.tool_name,
        coalesce(c.finish_kind, c.error_code),
        c.chunk_count,
        c.line,
        c.byte_offset,
        coalesce(array_to_string(c.texts, ''), c.chunk)[:200]
    from raw.chunk_runs as c
    semi join staging.sessions using (log_id)
    inner join span as p on c.session_id = p.session_id and c.seq between p.start_seq and p.end_seq
    where c.form <> 'stream'
)

select
    session_id,
    turn,
    step,
    branch,
    seq,
    event_at,
    type,
    call_id,
    tool_name,
    outcome,
    chunk_count,
    line,
    byte_offset,
    payload
from rows_of_turn
order by line
