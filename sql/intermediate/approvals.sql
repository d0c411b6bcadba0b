-- One row per own approval asked for: when it was decided, and the tool call it was asked for.
-- grain: session_id, seq
-- rows depend on: session_id

with decided as (
    select *
    from intermediate.tool_marks
    where kind = 'decided'
),

asked as (
    select
        a.*,
        d.time_ms as decided_time_ms,
        d.outcome as decision,
        d.seq as decided_seq
    from (select * exclude (outcome) from intermediate.tool_marks where kind = 'asked') as a
    asof left join decided as d
        on a.session_id = d.session_id
        and a.approval_id = d.approval_id
        and a.seq < d.seq
),

candidates as (
    select
        a.session_id,
        a.seq,
        nullif(a.call_id, '') is not null as is_named,
        t.turn,
        t.step,
        t.call_id,
        t.ordinal,
        t.call_seq,
        coalesce(a.turn = t.turn and a.step = t.step, false) as is_of_step,
        coalesce(t.call_seq < a.seq and a.seq < coalesce(t.result_seq, a.seq + 1), false) as is_running
    from asked as a
    inner join intermediate.tool_spans as t
        on a.session_id = t.session_id
        and coalesce(nullif(a.call_id, '') = t.call_id, a.tool_name = t.tool_name)
),

-- An id may recur in other steps; a tool without an id is told only where one call of it runs.
matched as (
    select *
    from candidates
    where case when is_named then is_of_step or is_running else is_of_step and is_running end
    qualify case
        when is_named
            then 1 = row_number() over (
                partition by session_id, seq
                order by is_of_step desc, is_running desc, call_seq desc nulls last, turn, step, ordinal
            )
        else count(*) over (partition by session_id, seq) = 1
    end
)

select
    -- Session of the approval.
    a.session_id,
    -- Sequence number of the question.
    a.seq,
    -- Line of the question.
    a.line,
    -- Tool it is about.
    a.tool_name,
    -- Time of the question, Unix ms.
    a.time_ms as asked_time_ms,
    -- Time of the answer, Unix ms; NULL while undecided.
    a.decided_time_ms,
    -- allowed-once, rejected, cancelled, unavailable or as written; NULL while undecided.
    case when a.decided_seq is not null then coalesce(a.decision, 'unknown') end as decision,
    -- A call was found for it; false where it names none that runs, or none of several that do.
    m.ordinal is not null as is_matched,
    -- Turn of the call.
    m.turn,
    -- Step of the call.
    m.step,
    -- Id of the call.
    m.call_id,
    -- Number of the call among those of its step with that id.
    m.ordinal
from asked as a
left join matched as m using (session_id, seq)
