-- One row per own turn that did not run to its end: what it was doing last.
-- grain: session_id, turn
-- rows depend on: session_id
-- check: last_phase in ('claim', 'request', 'streaming', 'tools', 'stopping')

with unfinished as (
    select session_id, turn
    from intermediate.turn_bounds
    where state not in ('completed', 'max-tokens')
),

-- The line that opened the last one may be lost, so any line that names it will do.
last_steps as (
    select b.session_id, b.turn, arg_max(b.step, b.seq) as step
    from intermediate.boundaries as b
    semi join unfinished using (session_id, turn)
    where b.is_current
        and b.step is not null
    group by all
    having count_if(b.type = 'step/start') > 0
),

-- The end of the last step says nothing: it is written for whatever was cut off, by the harness or by a closer.
step_rows as (
    select session_id, turn, step, line, 'request' as phase
    from intermediate.boundaries
    where is_current
        and type in ('step/start', 'llm/retry', 'llm/retry-started')

    union all

    select
        session_id,
        turn,
        step,
        first_line,
        case when settling_line is null and finish_line is null then 'streaming' else 'settled' end
    from intermediate.slots
),

last_rows as (
    select session_id, turn, arg_max(phase, line) as phase
    from step_rows
    inner join last_steps using (session_id, turn, step)
    group by all
),

compaction_events as (
    select session_id, branch, seq, turn, type
    from staging.events
    where not is_inherited
        and turn is not null
        and type in ('compaction/start', 'compaction/end')
),

compacting as (
    select session_id, turn
    from compaction_events
    anti join intermediate.overridden_events using (session_id, branch, seq)
    group by all
    having count_if(type = 'compaction/start') > count_if(type = 'compaction/end')
),

calling as (
    select distinct session_id, turn
    from intermediate.called_tools
    inner join last_steps using (session_id, turn, step)
    where call_count > answered_count
)

select
    -- Session of the turn.
    u.session_id,
    -- Number of the turn.
    u.turn,
    -- claim: no step yet; request: no answer yet; streaming: an answer begun; tools: calls without result;
    -- else stopping.
    case
        when s.step is null then 'claim'
        when r.phase = 'request' or c.turn is not null then 'request'
        when r.phase = 'streaming' then 'streaming'
        when t.turn is not null then 'tools'
        else 'stopping'
    end as last_phase
from unfinished as u
left join last_steps as s using (session_id, turn)
left join last_rows as r using (session_id, turn)
left join compacting as c using (session_id, turn)
left join calling as t using (session_id, turn)
