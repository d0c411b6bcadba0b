-- One row per event that the harness would append to close an open last turn when it loads the session again.
-- grain: session_id, seq
-- rows depend on: session_id
-- check: type in ('tool/result', 'step/end', 'turn/end')

with bracket_events as (
    select session_id, branch, seq, type, turn, step
    from staging.events
    where type in ('turn/start', 'turn/end', 'step/start', 'step/end')
),

-- The whole log, the inherited prefix included: a fork may have cut an open turn.
brackets as (
    select *
    from bracket_events
    anti join intermediate.overridden_events using (session_id, branch, seq)
),

last_turns as (
    select
        session_id,
        max(seq) as start_seq,
        arg_max_null(turn, seq) as turn,
        arg_max(type, seq) = 'turn/start' as is_open
    from brackets
    where type in ('turn/start', 'turn/end')
    group by all
),

open_turns as (
    select
        t.session_id,
        t.turn,
        greatest(t.start_seq, max(b.seq) filter (where b.type = 'step/end')) as cleared_seq,
        arg_max(b.type, b.seq) filter (where b.type in ('step/start', 'step/end')) = 'step/start' as is_step_open,
        arg_max(b.step, b.seq) filter (where b.type = 'step/start') as step
    from last_turns as t
    left join brackets as b on t.session_id = b.session_id and b.seq > t.start_seq
    where t.is_open
        and t.turn is not null
    group by t.session_id, t.turn, t.start_seq
),

events as (
    select e.session_id, e.branch, e.seq, e.type, e.time_ms, e.turn, e.step, e.call_id, e.tool_call_ids, e.surface_op
    from staging.events as e
    semi join open_turns using (session_id)
    anti join intermediate.overridden_events using (session_id, branch, seq)
),

ends as (
    select session_id, max(seq) as last_seq, arg_max(time_ms, seq) as last_time_ms
    from (
        select session_id, seq, time_ms
        from events

        union all

        select session_id, seq + chunk_count - 1, last_time_ms
        from staging.chunk_runs
        semi join open_turns using (session_id)
    )
    group by all
),

call_events as (
    select e.*, o.turn as open_turn
    from events as e
    inner join open_turns as o on e.session_id = o.session_id and e.seq > o.cleared_seq
    where e.type in ('assistant/message', 'tool/call', 'tool/result')
),

advertised as (
    select
        session_id,
        seq,
        step,
        open_turn,
        unnest(tool_call_ids) as call_id,
        unnest(range(len(tool_call_ids))) as place
    from call_events
    where type = 'assistant/message'
),

results as (
    select c.session_id, c.seq, c.turn, c.step, c.call_id, c.surface_op, s.format_version
    from call_events as c
    inner join staging.sessions as s using (session_id)
    where c.type = 'tool/result'
),

-- Any result of its id settles a call, since v4 only one that was appended in its turn and step.
unanswered as (
    select a.*
    from advertised as a
    anti join results as r
        on a.session_id = r.session_id
        and a.call_id = r.call_id
        and a.seq < r.seq
        and (
            coalesce(r.format_version, 0) < 4
            or (r.surface_op = 'append' and r.turn = a.open_turn and r.step = a.step)
        )
),

pending as (
    select
        session_id,
        call_id,
        min((seq, place)) as place,
        max(seq) as seq,
        arg_max(step, seq) as step
    from unanswered
    group by all
),

started as (
    select p.session_id, p.call_id, max(c.seq) as call_seq
    from pending as p
    inner join call_events as c
        on p.session_id = c.session_id
        and p.call_id = c.call_id
        and p.seq < c.seq
    where c.type = 'tool/call'
    group by all
),

closers as (
    select
        p.session_id,
        1 as rank,
        p.place,
        'tool/result' as type,
        p.step,
        p.call_id,
        s.call_seq,
        case when s.call_seq is null then 'TOOL_NOT_STARTED' else 'TOOL_OUTCOME_UNKNOWN' end as error_code
    from pending as p
    left join started as s using (session_id, call_id)

    union all

    select session_id, 2, null, 'step/end', step, null, null, null
    from open_turns
    where is_step_open

    union all

    select session_id, 3, null, 'turn/end', null, null, null, null
    from open_turns
)

select
    -- Session of the event.
    c.session_id,
    -- Sequence number it would have.
    e.last_seq + row_number() over (partition by c.session_id order by c.rank, c.place) as seq,
    -- tool/result, step/end or turn/end.
    c.type,
    -- The open turn.
    o.turn,
    -- Step of the message that advertised the call; the open step; NULL for the end of the turn.
    c.step,
    -- The call a result is made up for.
    c.call_id,
    -- Sequence number of its `tool/call`; NULL where it was never started.
    c.call_seq,
    -- TOOL_OUTCOME_UNKNOWN for a call that was started, else TOOL_NOT_STARTED.
    c.error_code,
    -- Time it would have, that of the last event; Unix ms.
    e.last_time_ms as time_ms
from closers as c
inner join open_turns as o using (session_id)
inner join ends as e using (session_id)
