-- One row per run of events that a message says it was made from; an event is in one run of a message at most.
-- grain: session_id, seq, first_seq
-- rows depend on: session_id
-- check: first_seq <= last_seq

with runs as (
    select
        session_id,
        seq,
        unnest(source_ranges[1:-1:2]) as first_seq,
        unnest(source_ranges[2:-1:2]) as last_seq
    from intermediate.surface_events
    where source_ranges is not null
),

-- A damaged log may name an event twice.
apart as (
    select
        session_id,
        seq,
        greatest(first_seq, max(last_seq) over runs_before + 1) as first_seq,
        last_seq
    from runs
    window runs_before as (
        partition by session_id, seq
        order by first_seq, last_seq
        rows between unbounded preceding and 1 preceding
    )
)

select
    -- Session of the message.
    session_id,
    -- Sequence number of the event that owns the message.
    seq,
    -- First event of the run.
    first_seq,
    -- Last event of the run.
    last_seq
from apart
where first_seq <= last_seq
