-- Where one message comes from: all that its `sourceEventSeqs` name, what those name, down to chunks and file lines.
-- The last message with sources, unless `set variable session_id = '…'` and `set variable seq = 12` chose another.

with recursive parameters as (
    select session_id, seq, log_id
    from staging.events
    inner join staging.sessions using (session_id)
    where session_id = coalesce(getvariable('session_id'), session_id)
        and seq = coalesce(getvariable('seq'), seq)
        and (getvariable('seq') is not null or len(source_ranges) > 0 or chunk_count > 0)
        and surface_op is not null
    order by time_ms desc, session_id, seq desc
    limit 1
),

current_events as (
    select e.session_id, e.seq, e.line, e.source_ranges
    from staging.events as e
    semi join parameters using (session_id)
    anti join intermediate.overridden_events using (session_id, branch, seq)
),

named as (
    select
        session_id,
        seq,
        unnest(source_ranges[1:-:2]) as first_seq,
        unnest(source_ranges[2:-:2]) as last_seq
    from current_events
),

reached as (
    select session_id, seq, null::bigint as source_of_seq, 0 as depth
    from parameters

    union

    -- Chunks name nothing, so only events are followed further.
    select e.session_id, e.seq, r.seq, r.depth + 1
    from reached as r
    inner join named as n on r.session_id = n.session_id and r.seq = n.seq
    inner join current_events as e
        on n.session_id = e.session_id
        and e.seq between n.first_seq and n.last_seq
),

chunks as (
    select c.*
    from raw.chunks as c
    semi join parameters using (log_id)
    -- Known before the query runs, so the chunks of no other session are expanded.
    where c.session_id = coalesce(getvariable('session_id'), c.session_id)
    qualify c.form = 'stream' or c.branch = max(c.branch) over (partition by c.session_id, c.seq)
),

found as (
    select
        r.depth,
        r.source_of_seq,
        e.seq,
        null::bigint as position,
        e.type,
        e.at as event_at,
        e.line,
        e.byte_offset,
        e.payload as text
    from reached as r
    inner join current_events as k on r.session_id = k.session_id and r.seq = k.seq
    inner join raw.events as e on k.seq = e.seq and k.line = e.line
    semi join parameters using (log_id)

    union

    select
        r.depth + 1,
        r.seq,
        c.seq,
        null,
        concat('chunk ', c.chunk_type),
        c.at,
        c.line,
        c.byte_offset,
        coalesce(c.text, c.chunk)
    from reached as r
    inner join named as n on r.session_id = n.session_id and r.seq = n.seq
    inner join chunks as c on c.seq between n.first_seq and n.last_seq
    where c.form <> 'stream'

    union

    -- The stream that a message of a newer format holds itself.
    select
        r.depth + 1,
        r.seq,
        c.seq,
        c.position,
        concat('chunk ', c.chunk_type),
        c.at,
        c.line,
        c.byte_offset,
        coalesce(c.text, c.chunk)
    from reached as r
    inner join current_events as k on r.session_id = k.session_id and r.seq = k.seq
    inner join chunks as c on r.seq = c.seq and k.line = c.line
    where c.form = 'stream'
)

select
    p.session_id,
    p.seq as message_seq,
    f.depth,
    f.source_of_seq,
    f.seq,
    f.position,
    f.type,
    f.event_at,
    f.line,
    f.byte_offset,
    f.text
from found as f
cross join parameters as p
order by f.depth, f.source_of_seq, f.seq, f.position
