-- One row per own turn of a session.
-- grain: session_id, turn
-- rows depend on: session_id
-- check: is_dangling = (ended_at is null and end_seq is null)
-- check: (last_phase is null) = (state in ('completed', 'max-tokens'))
-- check: unknown_usage_attempt_count + unpriced_attempt_count <= attempt_count
-- check: not is_empty or step_count = 0

with step_sums as (
    select session_id, turn, count(*) as step_count, sum(retry_count)::bigint as retry_count
    from intermediate.steps
    group by all
),

attempt_sums as (
    select
        session_id,
        turn,
        count(*) as attempt_count,
        arg_max_null(provider, first_line) as provider,
        arg_max_null(model, first_line) as model,
        sum(input_tokens)::bigint as input_tokens,
        sum(output_tokens)::bigint as output_tokens,
        sum(cache_read_tokens)::bigint as cache_read_tokens,
        sum(cache_write_tokens)::bigint as cache_write_tokens,
        sum(reasoning_tokens)::bigint as reasoning_tokens,
        sum(total_tokens)::bigint as total_tokens,
        sum(cost)::decimal(38, 12) as cost,
        count_if(total_tokens is null)::bigint as unknown_usage_attempt_count,
        count_if(total_tokens is not null and cost is null)::bigint as unpriced_attempt_count,
        count_if(is_empty_max_tokens)::bigint as empty_max_tokens_count
    from marts.attempts
    group by all
)

select
    -- Session of the turn.
    b.session_id,
    -- Number of the turn, as the log counts it.
    b.turn,
    -- completed, aborted, blocked, error, max-tokens, interrupted, forked or as written; dangling without a `turn/end`.
    b.state,
    -- Kind of the reason it ended for, as written; NULL when dangling.
    b.reason_kind,
    -- Who or what aborted it.
    b.reason_detail,
    -- Code of the failure it ended with.
    b.error_code,
    -- Message of that failure.
    b.error_message,
    -- HTTP status of that failure.
    b.error_status,
    -- Request id of that failure.
    b.error_request_id,
    -- Time the first message it took from the inbox was put there; NULL where the log does not tell.
    instant(q.queued_time_ms) as queued_at,
    -- From then to its start, ms; negative where the clock was set back.
    b.start_time_ms - q.queued_time_ms as queue_ms,
    -- Time of its `turn/start`.
    instant(b.start_time_ms) as started_at,
    -- Time of its `turn/end`; NULL when dangling.
    instant(b.end_time_ms) as ended_at,
    -- From its start to its end, ms; negative where the clock was set back.
    b.end_time_ms - b.start_time_ms as duration_ms,
    -- Steps it opened.
    coalesce(s.step_count, 0) as step_count,
    -- Calls of its steps and compactions that the provider may bill.
    coalesce(a.attempt_count, 0) as attempt_count,
    -- Retries announced in its steps.
    coalesce(s.retry_count, 0) as retry_count,
    -- Tool calls, nested ones left out.
    coalesce(t.tool_call_count, 0) as tool_call_count,
    -- Those whose tool reported an error.
    coalesce(t.failed_tool_call_count, 0) as failed_tool_call_count,
    -- Time in which at least one of its tool calls was running, ms; NULL where none tells.
    case when t.turn is null then 0 else t.tool_wall_ms end as tool_wall_ms,
    -- It has no step.
    s.step_count is null as is_empty,
    -- It has no `turn/end`.
    b.is_dangling,
    -- It is dangling and can't be live: the session went on without it.
    b.is_abandoned,
    -- Its `turn/end` was written by the harness after a crash or a fork.
    b.is_repaired,
    -- What it was doing last: claim, request, streaming, tools or stopping; NULL when completed or max-tokens.
    p.last_phase,
    -- Provider of its last attempt; NULL when unknown or without one.
    a.provider,
    -- Model of its last attempt; NULL when unknown or without one.
    a.model,
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
    -- Attempts that hit the output limit with an empty message.
    coalesce(a.empty_max_tokens_count, 0) as empty_max_tokens_count,
    -- Sequence number of its `turn/start`; NULL where that line is lost.
    b.start_seq,
    -- Sequence number of its `turn/end`.
    b.end_seq
from intermediate.turn_bounds as b
left join step_sums as s using (session_id, turn)
left join intermediate.tool_turn_sums as t using (session_id, turn)
left join attempt_sums as a using (session_id, turn)
left join intermediate.turn_phases as p using (session_id, turn)
left join intermediate.inbox_claims as q using (session_id, turn)
