-- One row per turn that the gate before a step stopped.
-- key: session_id, turn

with threshold as (
    -- Steps that a turn may complete before it is stopped unnoticed; -1 lists every such turn.
    select -1 as step_count
)

select
    t.session_id,
    t.turn,
    coalesce(t.ended_at, t.started_at) as "at",
    'warning' as severity,
    concat('turn was blocked before step ', t.step_count + 1) as message,
    t.step_count,
    t.cost
from marts.turns as t
cross join threshold as h
where t.state = 'blocked'
    and t.step_count > h.step_count
order by "at", t.session_id, t.turn
