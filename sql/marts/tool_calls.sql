-- One row per tool call: each block of a model's message, each call or result without one, each nested dispatch.
-- grain: session_id, turn?, step?, call_id, ordinal
-- rows depend on: session_id
-- check: outcome in ('ok', 'error', 'denied', 'aborted', 'not_started', 'unknown', 'open')
-- check: (outcome = 'open') = (result_seq is null)
-- check: is_nested or parent_call_id is null

with starts as (
    select session_id, line as call_line, arguments, arguments_is_json
    from staging.events
    where arguments is not null
),

-- The arguments of a call that never started stand in its message only.
messages as (
    select session_id, line as message_line, tool_call_arguments
    from staging.events
    where tool_call_arguments is not null
),

described as (
    select
        c.*,
        coalesce(s.arguments, m.tool_call_arguments[c.message_position]) as told_arguments,
        coalesce(s.arguments_is_json, json_valid(m.tool_call_arguments[c.message_position])) as told_is_json
    from intermediate.tool_calls as c
    left join starts as s using (session_id, call_line)
    left join messages as m on c.call_line is null and m.session_id = c.session_id and m.message_line = c.message_line
)

select
    -- Session of the call.
    session_id,
    -- Turn of the call.
    turn,
    -- Step of the call.
    step,
    -- Id of the call; empty where the provider gives none.
    call_id,
    -- Number of the call among those of its step with that id, from 1.
    ordinal,
    -- Tool called; NULL where only a result is known.
    tool_name,
    -- Its arguments as the model wrote them; of a nested dispatch as JSON text.
    told_arguments as arguments,
    -- The arguments are JSON.
    told_is_json as arguments_is_json,
    -- Call that dispatched it.
    parent_call_id,
    -- Code that the model wrote dispatched it, not the model; in no count of calls but `marts.tool_latency`.
    is_nested,
    -- Sequence number of its start; NULL where it never started.
    call_seq,
    -- Sequence number of its result.
    result_seq,
    -- Time of its start.
    instant(call_time_ms) as called_at,
    -- Time of its result.
    instant(result_time_ms) as result_at,
    -- From start to result, ms; NULL without either.
    wall_ms,
    -- Of that, waiting for people to approve, ms; NULL while one question is undecided.
    approval_wait_ms,
    -- What is left, ms: the tool's own time.
    exec_ms,
    -- A clock was set back within it: its times are worth nothing.
    is_clock_skewed,
    -- ok, error, denied, aborted, not_started, unknown or open.
    outcome,
    -- Name of the error.
    error_name,
    -- Code of the error.
    error_code,
    -- Characters in the text of the result.
    result_chars,
    -- It ran while another call of its step did.
    is_parallel,
    -- Session of the subagent it started, the first of several; NULL where the log does not tell.
    spawned_session_id
from described
