-- One row per call that left no stream row: a retry, a step start or the start of a retry proves it.
-- grain: session_id, branch, line
-- rows depend on: session_id
-- check: trace in ('failed', 'unanswered')

with step_rows as (
    select session_id, branch, turn, step, line, type as kind, time_ms
    from intermediate.boundaries
    where type in ('step/start', 'llm/retry', 'llm/retry-started')

    union all

    select session_id, branch, turn, step, first_line, 'slot', null
    from intermediate.slots
),

step_ends as (
    select session_id, branch, turn, step, min(line) as end_line
    from intermediate.boundaries
    where type = 'step/end'
    group by all
),

with_neighbours as (
    select
        *,
        lag(kind) over log_order as kind_before,
        lead(kind) over log_order as kind_after
    from step_rows
    window log_order as (partition by session_id, branch, turn, step order by line)
)

select
    -- Session of the call.
    session_id,
    -- Branch of the call.
    branch,
    -- Turn the trace names.
    turn,
    -- Step the trace names.
    step,
    -- Line of the event that proves the call.
    line,
    -- Time of that event, Unix ms.
    time_ms,
    -- failed: an `llm/retry` tells of a call without any row; unanswered: nothing follows the start of the request.
    case kind when 'llm/retry' then 'failed' else 'unanswered' end as trace
from with_neighbours
left join step_ends using (session_id, branch, turn, step)
where case kind
    when 'llm/retry' then kind_before is distinct from 'slot'
    when 'slot' then false
    -- A retry that starts behind the end of its step is the call of the next one, which tells of it itself.
    else kind_after is null and (end_line is null or line < end_line)
end
