-- One row per tool call id that a step of a session advertises, starts or answers.
-- grain: session_id, turn?, step?, call_id
-- rows depend on: session_id
-- stored as: view

select
    -- Session of the calls.
    session_id,
    -- Turn of the calls.
    turn,
    -- Step of the calls.
    step,
    -- Id of the calls; empty where the provider gives none, so it may stand for several.
    call_id,
    -- Calls with that id.
    count(*) as call_count,
    -- Calls with a result of their own, not one made up after a failure.
    count_if(outcome not in ('open', 'not_started', 'unknown'))::bigint as answered_count
from intermediate.tool_calls
where not is_nested
group by all
