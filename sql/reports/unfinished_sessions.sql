-- The sessions worth a look: those with a turn that did not run to its end, or a log the harness would not take whole.
-- All of them, unless `set variable session_id = '…'` chose one. The gravest first.

with parameters as (
    select session_id
    from marts.sessions
    where session_id = coalesce(getvariable('session_id'), session_id)
),

-- What a person wanted comes last, what may hide lost work first.
ranks as (
    select *
    from (
        values
            ('error', 1),
            ('dangling', 2),
            ('interrupted', 3),
            ('blocked', 4),
            ('max-tokens', 5),
            ('aborted', 7)
    ) as ranked (state, rank)
),

unfinished as (
    select t.*, coalesce(r.rank, 6) as rank
    from marts.turns as t
    semi join parameters using (session_id)
    left join ranks as r using (state)
    where t.state <> 'completed'
),

counted as (
    select session_id, state, rank, count(*) as turn_count
    from unfinished
    group by all
),

of_session as (
    select
        session_id,
        min(rank) as rank,
        sum(turn_count)::bigint as unfinished_turn_count,
        string_agg(concat(turn_count, ' ', state), ', ' order by rank, state) as states
    from counted
    group by all
),

last_ones as (
    select
        session_id,
        arg_max_null(turn, coalesce(start_seq, end_seq)) as last_turn,
        arg_max(error_code, coalesce(start_seq, end_seq)) as last_error_code
    from unfinished
    group by all
)

select
    s.session_id,
    s.last_event_at,
    coalesce(u.unfinished_turn_count, 0) as unfinished_turn_count,
    u.states,
    l.last_turn,
    l.last_error_code,
    s.verdict,
    s.inexact_reason,
    s.format_version,
    s.project,
    s.title
from marts.sessions as s
semi join parameters using (session_id)
left join of_session as u using (session_id)
left join last_ones as l using (session_id)
where u.session_id is not null
    or s.verdict <> 'clean'
order by
    case when s.verdict = 'refused' then 0 else coalesce(u.rank, 8) end,
    s.last_event_at desc nulls last,
    s.session_id
