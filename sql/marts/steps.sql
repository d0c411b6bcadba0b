-- One row per own step: one request to the model and the tools it called.
-- grain: session_id, turn, step
-- rows depend on: session_id
-- check: is_open = (end_seq is null)
-- check: unknown_usage_attempt_count + unpriced_attempt_count <= attempt_count
-- check: max_parallel_tool_calls <= tool_call_count

with attempt_sums as (
    select
        session_id,
        turn,
        step,
        count(*) as attempt_count,
        sum(duration_ms) filter (where duration_ms >= 0) as model_ms,
        sum(input_tokens)::bigint as input_tokens,
        sum(output_tokens)::bigint as output_tokens,
        sum(cache_read_tokens)::bigint as cache_read_tokens,
        sum(cache_write_tokens)::bigint as cache_write_tokens,
        sum(reasoning_tokens)::bigint as reasoning_tokens,
        sum(total_tokens)::bigint as total_tokens,
        sum(cost)::decimal(38, 12) as cost,
        count_if(total_tokens is null)::bigint as unknown_usage_attempt_count,
        count_if(total_tokens is not null and cost is null)::bigint as unpriced_attempt_count
    from marts.attempts
    where step is not null
    group by all
)

select
    -- Session of the step.
    s.session_id,
    -- Turn of the step.
    s.turn,
    -- Number of the step within its turn.
    s.step,
    -- Time of its `step/start`.
    instant(s.start_time_ms) as started_at,
    -- Time of its `step/end`; NULL while it is open.
    instant(s.end_time_ms) as ended_at,
    -- From its start to its end, ms; negative where the clock was set back.
    s.end_time_ms - s.start_time_ms as duration_ms,
    -- It has no `step/end`.
    s.end_seq is null as is_open,
    -- Calls that the provider may bill, compactions in it included.
    coalesce(a.attempt_count, 0) as attempt_count,
    -- Retries announced in it.
    s.retry_count,
    -- Tool calls, nested ones left out.
    coalesce(t.tool_call_count, 0) as tool_call_count,
    -- Time in which at least one of its tool calls was running, ms; NULL where none tells.
    case when t.step is null then 0 else t.tool_wall_ms end as tool_wall_ms,
    -- Most tool calls that ran at once.
    coalesce(t.max_parallel_tool_calls, 0) as max_parallel_tool_calls,
    -- Time its attempts took from request to end, ms, delays before retries left out; NULL where none tells.
    rolled_up(a.attempt_count, a.model_ms) as model_ms,
    -- Uncached prompt tokens.
    rolled_up(a.attempt_count, a.input_tokens) as input_tokens,
    -- Generated tokens, reasoning included.
    rolled_up(a.attempt_count, a.output_tokens) as output_tokens,
    -- Prompt tokens served from the cache.
    rolled_up(a.attempt_count, a.cache_read_tokens) as cache_read_tokens,
    -- Prompt tokens written to the cache.
    rolled_up(a.attempt_count, a.cache_write_tokens) as cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens.
    rolled_up(a.attempt_count, a.reasoning_tokens) as reasoning_tokens,
    -- Input, output and cache buckets.
    rolled_up(a.attempt_count, a.total_tokens) as total_tokens,
    -- What they cost, in the currency of the lake; NULL where no price is known.
    case when coalesce(a.attempt_count, 0) = 0 then 0 else a.cost end::decimal(38, 12) as cost,
    -- Attempts whose usage is not known: tokens and cost lack them.
    coalesce(a.unknown_usage_attempt_count, 0) as unknown_usage_attempt_count,
    -- Attempts of known usage without a price: cost lacks them.
    coalesce(a.unpriced_attempt_count, 0) as unpriced_attempt_count,
    -- Sequence number of its `step/start`; NULL where that line is lost.
    s.start_seq,
    -- Sequence number of its `step/end`.
    s.end_seq
from intermediate.steps as s
left join attempt_sums as a using (session_id, turn, step)
left join intermediate.tool_step_sums as t using (session_id, turn, step)
