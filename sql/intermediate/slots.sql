-- One row per attempt slot: the own stream rows and the message of one call, as far as the log holds any.
-- grain: session_id, branch, slot
-- rows depend on: session_id

-- Rows are put in order by short numbers, not by the long names of their sessions.
with numbered as (
    select session_id, row_number() over (order by session_id) as place
    from staging.sessions
),

stream_rows as (
    select
        place,
        branch,
        line,
        turn,
        step,
        'chunk' as kind,
        chunk_type = 'finish' as is_finish,
        false as has_empty_sources,
        has_usage and chunk_type = 'usage' as has_usage,
        first_token_ms,
        case when ends_with(chunk_type, '-delta') then last_time_ms end as last_token_ms
    from staging.chunk_runs
    inner join numbered using (session_id)
    where not is_inherited

    union all

    select
        place,
        branch,
        line,
        turn,
        step,
        case type
            when 'assistant/message' then 'message'
            when 'assistant/attempt' then 'attempt'
            else 'boundary'
        end as kind,
        false as is_finish,
        coalesce(len(source_ranges) = 0, false) as has_empty_sources,
        has_usage,
        first_token_ms,
        last_token_ms
    from staging.events
    inner join numbered using (session_id)
    where not is_inherited
        and type in (
            'assistant/message',
            'assistant/attempt',
            'llm/retry',
            'llm/retry-started',
            'step/end',
            'turn/end'
        )
),

with_the_row_before as (
    select
        *,
        coalesce(
            lag(kind) over log_order = 'chunk'
            and lag(turn) over log_order is not distinct from turn
            and lag(step) over log_order is not distinct from step,
            false
        ) as follows_chunk,
        coalesce(lag(is_finish) over log_order, false) as follows_finish
    from stream_rows
    window log_order as (partition by place, branch order by line)
),

opened as (
    select
        *,
        case kind
            when 'chunk' then not follows_chunk or follows_finish
            when 'message' then not follows_chunk or has_empty_sources
            else kind = 'attempt'
        end as opens_slot
    from with_the_row_before
),

-- A slot is known by the line that opens it: cheaper to carry on from row to row than a count.
carried as (
    select
        *,
        last_value(case when opens_slot then line end ignore nulls) over (
            partition by place, branch
            order by line
        ) as opening_line
    from opened
),

collected as (
    select
        place,
        branch,
        opening_line,
        min(turn) as turn,
        min(step) as step,
        min(line) as first_line,
        max(line) as last_line,
        max(line) filter (where kind = 'message') as message_line,
        max(line) filter (where kind <> 'chunk') as settling_line,
        max(line) filter (where is_finish) as finish_line,
        coalesce(max(line) filter (where has_usage and kind <> 'chunk'), max(line) filter (where has_usage))
            as usage_line,
        arg_min(first_token_ms, line) as first_token_ms,
        arg_max(last_token_ms, line) as last_token_ms
    from carried
    where kind <> 'boundary'
    group by all
)

select
    -- Session of the slot.
    session_id,
    -- Branch of the slot.
    branch,
    -- Number of the slot within its branch, from 1.
    row_number() over (partition by place, branch order by first_line) as slot,
    -- Turn its rows name.
    turn,
    -- Step its rows name.
    step,
    -- Line of its first row.
    first_line,
    -- Line of its last row.
    last_line,
    -- Line of its message; NULL where the call gave none.
    message_line,
    -- Line of the message or attempt event that settles it.
    settling_line,
    -- Line of its last `finish` chunk, where chunks are rows of their own.
    finish_line,
    -- Line whose usage counts: of the message or attempt event, else of the last usage chunk.
    usage_line,
    -- Time of the first delta that is not empty, Unix ms.
    first_token_ms,
    -- Time of the last delta, Unix ms.
    last_token_ms
from collected
inner join numbered using (place)
