-- One row per turn without an end that can't be running any more, or has been silent for too long.
-- key: session_id, turn

with threshold as (
    -- Minutes without any event of the session after which its last turn counts as lost.
    select 15 as silent_minutes
)

select
    t.session_id,
    t.turn,
    coalesce(t.started_at, s.last_event_at, s.created_at) as "at",
    'error' as severity,
    concat(
        case
            when t.is_abandoned then 'turn never ended, the session went on without it'
            else concat('turn is open and silent for more than ', h.silent_minutes, ' minutes')
        end,
        '; last seen in phase ',
        t.last_phase
    ) as message,
    t.is_abandoned,
    t.last_phase,
    s.last_event_at,
    t.tool_call_count,
    t.unknown_usage_attempt_count
from marts.turns as t
inner join marts.sessions as s using (session_id)
cross join threshold as h
where t.is_dangling
    and (
        t.is_abandoned
        or coalesce(s.last_event_at, s.created_at) + to_minutes(h.silent_minutes) < current_timestamp
    )
order by "at", t.session_id, t.turn
