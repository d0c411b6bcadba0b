-- One row per tool call: each block of a model's message, each call or result without one, each nested dispatch.
-- grain: session_id, turn?, step?, call_id, ordinal
-- check: outcome in ('ok', 'error', 'denied', 'aborted', 'not_started', 'unknown', 'open')
-- check: (outcome = 'open') = (result_seq is null)
-- check: is_nested or parent_call_id is null

with starts as (
    select session_id, line as call_line, arguments
    from staging.events
    where arguments is not null
),

started as (
    select *
    from intermediate.tool_calls
    left join starts using (session_id, call_line)
),

-- The arguments of a call that never started stand in its message only.
unstarted as (
    select c.session_id, l.log_id, c.message_line, c.message_position
    from intermediate.tool_calls as c
    inner join staging.sessions as l using (session_id)
    where c.call_line is null
        and c.message_line is not null
),

-- Two plain filters: the scan of the payloads then skips nearly all of them.
messages as (
    select *
    from staging.payloads
    where log_id in (select log_id from unstarted)
        and line in (select message_line from unstarted)
),

advertised as (
    select
        u.session_id,
        u.message_line,
        u.message_position,
        case
            when json_valid(m.payload)
                then list_filter(
                    json_extract(m.payload, '$.message.content[*]'),
                    lambda block: json_extract_string(block, '$.type') = 'tool-call'
                )[u.message_position]
        end as block
    from unstarted as u
    inner join messages as m on u.log_id = m.log_id and u.message_line = m.line
),

described as (
    select s.*, coalesce(s.arguments, json_extract_string(a.block, '$.arguments')) as told_arguments
    from started as s
    left join advertised as a using (session_id, message_line, message_position)
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
    json_valid(told_arguments) as arguments_is_json,
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
