-- One row per call that hit the output limit with an empty message: paid for, and nothing to show.
-- key: attempt_id

with threshold as (
    -- Tokens that such a call may use unseen.
    select 0 as total_tokens
)

select
    a.session_id,
    a.turn,
    a.billed_at as "at",
    'warning' as severity,
    concat(
        'empty message at the output limit: ',
        coalesce(a.total_tokens::varchar, 'an unknown number of'),
        ' tokens',
        case when a.reasoning_tokens is not null then concat(', ', a.reasoning_tokens, ' of them reasoning') end
    ) as message,
    a.attempt_id,
    a.provider,
    a.model,
    a.total_tokens,
    a.cost
from marts.attempts as a
cross join threshold as h
where a.is_empty_max_tokens
    and coalesce(a.total_tokens > h.total_tokens, true)
order by "at", a.session_id, a.attempt_id
