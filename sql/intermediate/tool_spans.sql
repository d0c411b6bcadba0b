-- One row per tool call: the block that advertises it, its start and its result, as far as the log holds them.
-- grain: session_id, turn?, step?, call_id, ordinal
-- rows depend on: session_id

with current_events as (
    select *
    from staging.events
    anti join intermediate.overridden_events using (session_id, branch, seq)
    where type in ('assistant/message', 'tool/call')
        or (type = 'tool/result' and surface_op is distinct from 'replace')
),

mentions as (
    select
        session_id,
        turn,
        step,
        unnest(tool_call_ids) as call_id,
        unnest(range(1, len(tool_call_ids) + 1)) as position,
        'block' as kind,
        false as is_nested,
        is_inherited,
        seq,
        line,
        time_ms,
        unnest(tool_call_names) as tool_name,
        null as parent_call_id,
        null as is_error,
        null as error_name,
        null as error_code,
        null as content_chars
    from current_events
    where type = 'assistant/message'

    union all

    select
        session_id,
        turn,
        step,
        coalesce(call_id, ''),
        null,
        case type when 'tool/call' then 'start' else 'result' end,
        false,
        is_inherited,
        seq,
        line,
        time_ms,
        tool_name,
        null,
        is_error,
        error_name,
        error_code,
        content_chars
    from current_events
    where type <> 'assistant/message'

    union all

    select
        session_id,
        turn,
        step,
        coalesce(call_id, ''),
        null,
        case kind when 'dispatched' then 'start' else 'result' end,
        true,
        false,
        seq,
        line,
        time_ms,
        tool_name,
        parent_call_id,
        is_error,
        null,
        null,
        null
    from intermediate.tool_marks
    where kind in ('dispatched', 'settled')
),

-- Where an id is empty or recurs in its step, the first block belongs to the first start and the first result.
numbered as (
    select
        *,
        row_number() over (
            partition by turn, step, is_nested, kind, call_id, session_id
            order by seq, position
        ) as place
    from mentions
),

spans as (
    select
        session_id,
        turn,
        step,
        call_id,
        is_nested,
        place,
        max(line) filter (where kind = 'block') as message_line,
        max(position) as message_position,
        max(seq) filter (where kind = 'start') as call_seq,
        max(line) filter (where kind = 'start') as call_line,
        max(time_ms) filter (where kind = 'start') as call_time_ms,
        max(seq) filter (where kind = 'result') as result_seq,
        max(time_ms) filter (where kind = 'result') as result_time_ms,
        coalesce(
            max(tool_name) filter (where kind = 'start'),
            max(tool_name) filter (where kind = 'block'),
            max(tool_name)
        ) as tool_name,
        max(parent_call_id) as parent_call_id,
        bool_or(is_error) as is_error,
        max(error_name) as error_name,
        max(error_code) as error_code,
        max(content_chars) as result_chars
    from numbered
    group by all
    having not bool_or(is_inherited)
        -- A second result for one call is no call of its own.
        and (place = 1 or call_id = '' or bool_or(kind <> 'result'))
),

-- Nothing keeps a nested call from taking the id of another: it counts on.
namesakes as (
    select session_id, call_id, max(place) as namesake_count
    from spans
    where not is_nested
        and call_id in (select call_id from spans where is_nested)
    group by all
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
    place + case when is_nested then coalesce(namesake_count, 0) else 0 end as ordinal,
    -- Another call dispatched it: code that the model wrote, not the model.
    is_nested,
    -- Call that dispatched it.
    parent_call_id,
    -- Line of the message that advertises it.
    message_line,
    -- Position of its block among the message's tool-call blocks, from 1.
    message_position,
    -- Sequence number of its start.
    call_seq,
    -- Line of its start.
    call_line,
    -- Time of its start, Unix ms.
    call_time_ms,
    -- Sequence number of its result.
    result_seq,
    -- Time of its result, Unix ms.
    result_time_ms,
    -- Tool called.
    tool_name,
    -- The result is marked as an error.
    is_error,
    -- Name of the error.
    error_name,
    -- Code of the error.
    error_code,
    -- Characters in the text of the result.
    result_chars
from spans
left join namesakes using (session_id, call_id)
