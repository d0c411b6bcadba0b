-- One row per own turn: where it starts and how it ends.
-- grain: session_id, turn
-- rows depend on: session_id
-- check: is_dangling = (state = 'dangling')
-- check: not (is_abandoned and not is_dangling)

with brackets as (
    select *
    from intermediate.boundaries
    where is_current
        and turn is not null
        and type in ('turn/start', 'turn/end', 'step/start', 'step/end')
),

inherited_turns as (
    select distinct session_id, turn
    from staging.events
    where is_inherited
        and type = 'turn/start'
        and turn is not null
),

own_turns as (
    select
        session_id,
        turn,
        min(seq) filter (where type = 'turn/start') as start_seq,
        max(seq) filter (where type = 'turn/end') as end_seq,
        max(seq) as last_bracket_seq
    from brackets
    -- A fork may cut an open turn; what closes it is the child's own, the turn is not.
    anti join inherited_turns using (session_id, turn)
    group by all
),

current_events as (
    select e.*
    from staging.events as e
    anti join intermediate.overridden_events using (session_id, branch, seq)
    where e.type in ('turn/start', 'turn/end')
),

-- A migration ends a turn that the harness left open when it started the next one; nothing crashed there.
made_by_migration as (
    select n.session_id, n.turn
    from intermediate.boundaries as n
    inner join intermediate.boundaries as s
        on n.session_id = s.session_id
        and n.branch = s.branch
        and n.seq + 1 = s.seq
        and s.type = 'turn/start'
    inner join staging.events as i
        on n.session_id = i.session_id
        and n.branch = i.branch
        and n.seq - 1 = i.seq
        and i.type = 'agent/inbox/spliced'
        and i.label = 'next-turn'
    where n.is_current
        and n.type = 'turn/end'
        and n.turn is not null
),

last_restarts as (
    select session_id, max(seq) as restart_seq
    from intermediate.boundaries
    where is_current
        and type in ('turn/start', 'session/end-seed')
    group by all
)

select
    -- Session of the turn.
    t.session_id,
    -- Number of the turn.
    t.turn,
    -- Sequence number of its `turn/start`; NULL where that line is lost.
    t.start_seq,
    -- Sequence number of its `turn/end`.
    t.end_seq,
    -- Time of its `turn/start`, Unix ms.
    s.time_ms as start_time_ms,
    -- Time of its `turn/end`, Unix ms.
    e.time_ms as end_time_ms,
    -- Kind of the reason it ended for; dangling without a `turn/end`, unknown where that states no reason.
    case when t.end_seq is null then 'dangling' else coalesce(e.reason_kind, 'unknown') end as state,
    -- Kind of the reason, as written.
    e.reason_kind,
    -- Who or what aborted it.
    e.reason_detail,
    -- Code of the failure it ended with.
    e.error_code,
    -- Message of that failure.
    e.error_message,
    -- HTTP status of that failure.
    e.error_status,
    -- Request id of that failure.
    e.error_request_id,
    -- It has no `turn/end`.
    t.end_seq is null as is_dangling,
    -- It has none and never will: the session went on without it.
    t.end_seq is null and coalesce(r.restart_seq > coalesce(t.start_seq, t.last_bracket_seq), false) as is_abandoned,
    -- Its `turn/end` was written by the harness after a crash or a fork.
    coalesce(e.reason_kind in ('interrupted', 'forked'), false)
    and not (e.reason_kind = 'interrupted' and m.turn is not null) as is_repaired
from own_turns as t
left join current_events as s on t.session_id = s.session_id and t.start_seq = s.seq
left join current_events as e on t.session_id = e.session_id and t.end_seq = e.seq
left join last_restarts as r on t.session_id = r.session_id
left join made_by_migration as m on t.session_id = m.session_id and t.turn = m.turn
