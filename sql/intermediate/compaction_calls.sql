-- One row per own compaction summary: a call of its own, outside the attempts of the step it interrupts.
-- grain: session_id, branch, line
-- rows depend on: session_id

with summaries as (
    select *
    from staging.events
    where type = 'compaction/summary'
        and not is_inherited
),

starts as (
    select session_id, branch, line, turn, time_ms
    from staging.events
    where type = 'compaction/start'
        and not is_inherited
),

brackets as (
    select session_id, branch, line, type, turn, step
    from intermediate.boundaries
    where type in ('turn/start', 'turn/end', 'step/start', 'step/end')
),

started as (
    select s.session_id, s.branch, s.line, c.turn, c.time_ms as start_time_ms
    from summaries as s
    asof left join starts as c
        on s.session_id = c.session_id
        and s.branch = c.branch
        and s.line > c.line
)

select
    -- Session of the call.
    s.session_id,
    -- Branch of the call.
    s.branch,
    -- Line of the summary.
    s.line,
    -- Turn that the start of the compaction names; NULL outside turns.
    s.turn,
    -- Step that is open there.
    case when b.type = 'step/start' and b.turn = s.turn then b.step end as step,
    -- Time of the start of the compaction, Unix ms.
    s.start_time_ms
from started as s
asof left join brackets as b
    on s.session_id = b.session_id
    and s.branch = b.branch
    and s.line > b.line
