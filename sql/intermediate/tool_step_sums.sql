-- One row per step that has tool calls, nested ones left out.
-- grain: session_id, turn?, step?
-- rows depend on: session_id
-- check: tool_call_count > 0
-- check: max_parallel_tool_calls <= tool_call_count

with calls as (
    select *
    from intermediate.tool_calls
    where not is_nested
),

starts_and_ends as (
    select session_id, turn, step, call_seq as seq, 1 as change
    from calls
    where is_parallel

    union all

    select session_id, turn, step, result_seq, -1
    from calls
    where is_parallel
        and result_seq is not null
),

running as (
    select session_id, turn, step, sum(change) over (partition by session_id, turn, step order by seq) as running_count
    from starts_and_ends
),

most_running as (
    select session_id, turn, step, max(running_count)::bigint as max_running_count
    from running
    group by all
),

sums as (
    select
        session_id,
        turn,
        step,
        count(*) as tool_call_count,
        count_if(outcome = 'error')::bigint as failed_tool_call_count,
        sum(step_wall_ms)::bigint as tool_wall_ms,
        count_if(call_seq is not null)::bigint as started_count
    from calls
    group by all
)

select
    -- Session of the step.
    s.session_id,
    -- Turn of the step.
    s.turn,
    -- Number of the step within its turn.
    s.step,
    -- Its tool calls.
    s.tool_call_count,
    -- Those that ended in an error of the tool.
    s.failed_tool_call_count,
    -- Length of the union of the times its calls took, ms; NULL where no call tells.
    s.tool_wall_ms,
    -- Most calls that ran at once.
    coalesce(r.max_running_count, least(s.started_count, 1)) as max_parallel_tool_calls
from sums as s
left join most_running as r
    on s.session_id = r.session_id
    and s.turn is not distinct from r.turn
    and s.step is not distinct from r.step
