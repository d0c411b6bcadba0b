-- The event before which the request of each call was built: the messages before it are what the model saw.
-- Of the session whose call started last, unless `set variable session_id = '…'` chose another.

with parameters as (
    select session_id
    from marts.attempts
    where session_id = coalesce(getvariable('session_id'), session_id)
    order by started_at desc nulls last, session_id
    limit 1
),

lines as (
    select session_id, line, seq
    from staging.events
    semi join parameters using (session_id)

    union all

    select session_id, line, seq
    from staging.chunk_runs
    semi join parameters using (session_id)
),

-- A request that nothing answered saw all that came until the next of these.
bounds as (
    select session_id, branch, line, seq
    from intermediate.boundaries
    semi join parameters using (session_id)
),

calls as (
    select a.*, t.trace
    from marts.attempts as a
    semi join parameters using (session_id)
    left join intermediate.traced_calls as t
        on a.session_id = t.session_id
        and a.first_line = t.line
        and a.kind = 'model'
)

select
    c.session_id,
    c.turn,
    c.step,
    c.attempt,
    c.attempt_id,
    c.kind,
    c.outcome,
    case
        -- What a compaction asked its model is not in the log.
        when c.kind = 'compaction' then null
        when c.trace = 'unanswered' then b.seq
        else l.seq
    end as before_seq,
    c.first_line
from calls as c
left join lines as l on c.session_id = l.session_id and c.first_line = l.line
asof left join bounds as b
    on c.session_id = b.session_id
    and c.branch = b.branch
    and c.first_line < b.line
order by c.first_line, c.attempt_id
