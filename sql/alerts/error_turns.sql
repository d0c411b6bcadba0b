-- One row per turn that ended with an error.
-- key: session_id, turn

with threshold as (
    -- States of a turn that are worth a look.
    select ['error'] as states
)

select
    t.session_id,
    t.turn,
    coalesce(t.ended_at, t.started_at) as "at",
    'error' as severity,
    concat(
        'turn ended as ',
        t.state,
        ': ',
        coalesce(t.error_code, t.reason_detail, 'no code'),
        case when t.error_status is not null then concat(' (HTTP ', t.error_status, ')') end,
        case when t.error_message is not null then concat(', ', t.error_message[:200]) end,
        case when t.retry_count > 0 then concat(', retries: ', t.retry_count) end
    ) as message,
    t.provider,
    t.model,
    t.error_request_id,
    t.last_phase
from marts.turns as t
cross join threshold as h
where list_contains(h.states, t.state)
order by "at", t.session_id, t.turn
