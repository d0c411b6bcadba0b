-- One row per event that a message of the transcript says it was made from.
-- grain: session_id, seq, source_seq
-- stored as: view

with sources as (
    select session_id, seq, unnest(range(first_seq, last_seq + 1)) as source_seq
    from intermediate.surface_sources
),

current_events as (
    select session_id, seq, type
    from staging.events
    anti join intermediate.overridden_events using (session_id, branch, seq)
)

select
    -- Session of the message.
    s.session_id,
    -- Sequence number of the event that owns the message.
    s.seq,
    -- Sequence number of the event it was made from.
    s.source_seq,
    -- shadowed: a message it replaced; call: a tool call; other: any other event; chunk: no event of its own row.
    case
        when n.seq is not null then 'shadowed'
        when e.type = 'tool/call' then 'call'
        when e.seq is not null then 'other'
        else 'chunk'
    end as kind
from sources as s
left join intermediate.surface_nodes as n
    on s.session_id = n.session_id
    and s.source_seq = n.seq
    and s.seq = n.shadowed_by_seq
left join current_events as e
    on s.session_id = e.session_id
    and s.source_seq = e.seq
