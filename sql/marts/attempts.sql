-- One row per call that the provider may bill: its outcome, times, tokens and cost.
-- grain: session_id, attempt_id
-- rows depend on: session_id
-- check: kind in ('model', 'compaction')
-- check: outcome in ('message', 'failed', 'interrupted', 'open')
-- check: usage_source in ('message', 'stream', 'compaction', 'none', 'invalid')
-- check: attempt >= 1
-- check: total_tokens is not null or (cost is null and price_source is distinct from 'unpriced')

with timed as (
    select
        a.*,
        p.price_id,
        p.price_source,
        p.price_window,
        p.price_note,
        p.cost,
        first_token_ms - start_time_ms as ttft_ms,
        settled_time_ms - first_token_ms as decode_ms,
        settled_time_ms - start_time_ms as duration_ms
    from intermediate.attempts as a
    inner join intermediate.attempt_prices as p using (session_id, attempt_id)
)

select
    -- Session of the call.
    session_id,
    -- Stable id: session, turn, step and attempt, or session and number of the compaction; and the branch above 0.
    attempt_id,
    -- Turn of the call; of a compaction the turn it interrupts, NULL outside.
    turn,
    -- Step of the call; of a compaction the open one.
    step,
    -- Number of the call within its step, of a compaction within the session; from 1, in log order.
    attempt,
    -- model or compaction.
    kind,
    -- Branch of the log the call stands in.
    branch,
    -- message, failed, interrupted or open.
    outcome,
    -- Provider called, as message or context name it; NULL when unknown.
    provider,
    -- Model called; NULL when unknown.
    model,
    -- Kind of the stream's `finish`.
    finish_kind,
    -- Code of the failure.
    error_code,
    -- The message has no content block; NULL without a message.
    is_empty,
    -- The call hit the output limit and its message is empty.
    is_empty_max_tokens,
    -- Sequence number of the message.
    message_seq,
    -- First line of the log that tells of the call.
    first_line,
    -- Last line that does.
    last_line,
    -- Line whose usage counts; NULL without one.
    usage_line,
    -- Start of the request.
    instant(start_time_ms) as started_at,
    -- Time of the first delta that is not empty.
    instant(first_token_ms) as first_token_at,
    -- Time of the last delta.
    instant(last_token_ms) as last_token_at,
    -- Time the call was over; NULL while it may still run.
    instant(settled_time_ms) as settled_at,
    -- Time of the line whose usage counts, else the end, the last token or the start: prices the call, gives its day.
    instant(billed_time_ms) as billed_at,
    -- From its start to the first token, ms.
    ttft_ms,
    -- From the first token to the end, ms.
    decode_ms,
    -- From its start to the end, ms.
    duration_ms,
    -- One of these durations is negative: the clock was set back. Averages leave it out.
    coalesce(least(ttft_ms, decode_ms, duration_ms) < 0, false) as is_clock_skewed,
    -- Generated tokens a second of decode_ms; NULL where that is not positive.
    case when decode_ms > 0 then 1000.0::double * output_tokens / decode_ms end as output_tokens_per_second,
    -- Uncached prompt tokens; NULL when unknown.
    input_tokens,
    -- Generated tokens, reasoning included; NULL when unknown.
    output_tokens,
    -- Prompt tokens served from the cache; NULL when unknown or not reported.
    cache_read_tokens,
    -- Prompt tokens written to the cache; NULL when unknown or not reported.
    cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens; NULL when unknown or not reported.
    reasoning_tokens,
    -- Prompt and output: input, output and the cache buckets reported; NULL when unknown.
    total_tokens,
    -- Where the usage stands: message, stream, compaction; none without one; invalid where it is no usage.
    usage_source,
    -- The meter of the harness counted it up to 0.1.1: the last usage of each step.
    is_counted_by_old_meter,
    -- The meter of the harness counts it since 0.1.2: the last usage of each step, anew from each retry that started.
    is_counted_by_new_meter,
    -- Tokens the model's window holds, as the last `request/context` before the call advertises; NULL where it doesn't.
    context_window,
    -- Part of the window that the prompt fills, cached or not; NULL when unknown.
    (total_tokens - output_tokens)::double / nullif(context_window, 0) as context_used_ratio,
    -- Card that prices it, in marts.prices; NULL where none is in force.
    price_id,
    -- builtin or override; unpriced where tokens are known and no card is; NULL where both are unknown.
    price_source,
    -- flat, peak or off-peak; NULL without a card.
    price_window,
    -- What was assumed in pricing it; NULL where nothing was.
    price_note,
    -- What it costs, in the currency of the lake; NULL where tokens or card are unknown.
    cost
from timed
