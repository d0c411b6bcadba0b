-- One row per tool call id that a step of a session advertises, starts or answers.
-- grain: session_id, turn?, step?, call_id

with own_events as (
    select session_id, branch, seq, type, turn, step, call_id, tool_call_ids, surface_op, error_code
    from staging.events
    where not is_inherited
        and type in ('assistant/message', 'tool/call', 'tool/result')
),

current_events as (
    select *
    from own_events
    anti join intermediate.overridden_events using (session_id, branch, seq)
),

mentions as (
    select session_id, turn, step, unnest(tool_call_ids) as call_id, 'advertised' as kind
    from current_events
    where type = 'assistant/message'

    union all

    select session_id, turn, step, call_id, 'started'
    from current_events
    where type = 'tool/call'

    union all

    select
        session_id,
        turn,
        step,
        call_id,
        case when error_code in ('TOOL_OUTCOME_UNKNOWN', 'TOOL_NOT_STARTED') then 'made up' else 'answered' end
    from current_events
    where type = 'tool/result'
        and surface_op = 'append'
)

select
    -- Session of the calls.
    session_id,
    -- Turn of the calls.
    turn,
    -- Step of the calls.
    step,
    -- Id of the calls; empty where the provider gives none, so it may stand for several.
    coalesce(call_id, '') as call_id,
    -- Calls with that id: as many as there are blocks, starts or results, whichever is most.
    greatest(
        count_if(kind = 'advertised'),
        count_if(kind = 'started'),
        count_if(kind in ('answered', 'made up'))
    )::bigint as call_count,
    -- Calls with a result of their own, not one made up after a failure.
    count_if(kind = 'answered')::bigint as answered_count
from mentions
group by all
