-- One row per event that a message of the transcript says it was made from.
-- grain: session_id, seq, source_seq
-- rows depend on: session_id
-- key of: intermediate.surface_sources
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
    -- shadowed: a message it replaced; call: a tool call; chunk: what an answer names and no event stands for;
    -- else other.
    case
        when r.seq is not null then 'shadowed'
        when e.type = 'tool/call' then 'call'
        when e.seq is null and n.type = 'assistant/message' then 'chunk'
        else 'other'
    end as kind
from sources as s
inner join intermediate.surface_nodes as n
    on s.session_id = n.session_id
    and s.seq = n.seq
left join intermediate.surface_nodes as r
    on s.session_id = r.session_id
    and s.source_seq = r.seq
    and s.seq = r.shadowed_by_seq
left join current_events as e
    on s.session_id = e.session_id
    and s.source_seq = e.seq
