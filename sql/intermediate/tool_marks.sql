-- One row per own event that tells of a tool call from beside it: approvals, nested dispatches, new subagents.
-- grain: session_id, seq
-- rows depend on: session_id

with marks as (
    select *
    from staging.events
    anti join intermediate.overridden_events using (session_id, branch, seq)
    where not is_inherited
        and type in (
            'approval/asked',
            'approval/decided',
            'subagent/catalog',
            'tool/code-dispatch-start',
            'tool/code-dispatch',
            'tool/ptc-dispatch-start',
            'tool/ptc-dispatch'
        )
),

brackets as (
    select session_id, seq, type, turn, step
    from intermediate.boundaries
    where is_current
        and type in ('turn/start', 'turn/end', 'step/start', 'step/end')
)

select
    -- Session of the event.
    m.session_id,
    -- Sequence number of the event.
    m.seq,
    -- Line of the event.
    m.line,
    -- asked, decided, catalog, dispatched or settled.
    case m.type
        when 'approval/asked' then 'asked'
        when 'approval/decided' then 'decided'
        when 'subagent/catalog' then 'catalog'
        else case when ends_with(m.type, '-start') then 'dispatched' else 'settled' end
    end as kind,
    -- Turn that is open there; NULL between turns.
    case when b.type <> 'turn/end' then b.turn end as turn,
    -- Step that is open there; NULL between steps.
    case when b.type = 'step/start' then b.step end as step,
    -- Time of the event, Unix ms.
    m.time_ms,
    -- Id that ties an approval's question to its answer.
    m.related_id as approval_id,
    -- How an approval was decided.
    m.outcome,
    -- Call the event names; of a nested dispatch its own sub call.
    m.call_id,
    -- Call that a nested dispatch belongs to.
    m.parent_call_id,
    -- Tool the event names.
    m.tool_name,
    -- A nested dispatch settled as an error.
    m.is_error,
    -- Session of the new subagent.
    m.child_id
from marks as m
asof left join brackets as b
    on m.session_id = b.session_id
    and m.seq > b.seq
