-- One row per turn that has tool calls, nested ones left out.
-- grain: session_id, turn?
-- rows depend on: session_id
-- check: tool_call_count > 0

select
    -- Session of the turn.
    session_id,
    -- Number of the turn; NULL for calls that name none.
    turn,
    -- Its tool calls.
    count(*) as tool_call_count,
    -- Those that ended in an error of the tool.
    count_if(outcome = 'error')::bigint as failed_tool_call_count,
    -- Length of the union of the times its calls took, ms; NULL where no call tells.
    sum(turn_wall_ms)::bigint as tool_wall_ms
from intermediate.tool_calls
where not is_nested
group by all
