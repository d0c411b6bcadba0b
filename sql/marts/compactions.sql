-- One row per compaction of an own transcript: a part of what the model sees gave way to a summary.
-- grain: session_id, compaction
-- rows depend on: session_id
-- check: outcome in ('done', 'failed', 'open')

with compaction_events as (
    select session_id, branch, seq, line, type, time_ms, turn, related_id, outcome, shadowed_token_count
    from staging.events
    where not is_inherited
        and type in ('compaction/start', 'compaction/summary', 'compaction/end')
),

current_events as (
    select
        *,
        type = 'compaction/start' or related_id is distinct from lag(related_id) over log_order as opens
    from compaction_events
    anti join intermediate.overridden_events using (session_id, branch, seq)
    window log_order as (partition by session_id order by seq)
),

numbered as (
    select *, count_if(opens) over (partition by session_id order by seq)::bigint as compaction
    from current_events
),

calls as (
    select session_id, branch, first_line as line, attempt_id
    from intermediate.attempts
    where kind = 'compaction'
)

select
    -- Session of the compaction.
    n.session_id,
    -- Number of the compaction within the session, from 1.
    n.compaction,
    -- Id the log gives it.
    min(n.related_id) as compaction_id,
    -- Turn it interrupts; NULL outside turns.
    min(n.turn) as turn,
    -- done; failed where its end states an error; open without an end.
    case
        when count_if(n.type = 'compaction/end') = 0 then 'open'
        when count_if(n.type = 'compaction/end' and n.outcome is not null) > 0 then 'failed'
        else 'done'
    end as outcome,
    -- The error of its end.
    arg_min(n.outcome, n.seq) filter (where n.type = 'compaction/end') as error_message,
    -- Time of its start.
    instant(min(n.time_ms) filter (where n.type = 'compaction/start')) as started_at,
    -- Time of its end; NULL while open.
    instant(max(n.time_ms) filter (where n.type = 'compaction/end')) as ended_at,
    -- From its start to its end, ms.
    max(n.time_ms) filter (where n.type = 'compaction/end') - min(n.time_ms) filter (where n.type = 'compaction/start')
        as duration_ms,
    -- Context tokens it took from the model's sight, as the harness estimates; not usage.
    sum(n.shadowed_token_count)::bigint as shadowed_token_count,
    -- The call in `attempts` that says what it cost; NULL where no call is told of.
    max(c.attempt_id) as attempt_id,
    -- Sequence number of its first event.
    min(n.seq) as start_seq,
    -- Sequence number of its end.
    max(n.seq) filter (where n.type = 'compaction/end') as end_seq
from numbered as n
left join calls as c
    on n.session_id = c.session_id
    and n.branch = c.branch
    and n.line = c.line
group by n.session_id, n.compaction
