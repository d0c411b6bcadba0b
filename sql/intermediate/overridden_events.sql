-- One row per event that a later branch of the log has written again: state reads the later one.
-- grain: session_id, branch, seq
-- rows depend on: session_id

with written_again as (
    select session_id, branch, seq as first_seq, seq as last_seq
    from staging.events
    where branch > 0

    union all

    select session_id, branch, seq, seq + chunk_count - 1
    from staging.chunk_runs
    where branch > 0
)

select distinct
    -- Session of the event.
    e.session_id,
    -- Branch that no longer counts for state.
    e.branch,
    -- Sequence number that a later branch has too.
    e.seq
from staging.events as e
inner join written_again as w
    on e.session_id = w.session_id
    and e.branch < w.branch
    and e.seq between w.first_seq and w.last_seq
