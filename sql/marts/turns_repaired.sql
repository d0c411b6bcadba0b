-- One row per own turn of a session, the open last one closed as the harness would when it loads the session again.
-- grain: session_id, turn
-- rows depend on: session_id
-- check: not is_synthetic or state = 'interrupted'
-- check: is_dangling = (end_seq is null)

with closed as (
    select
        session_id,
        turn,
        max(seq) as end_seq,
        max(time_ms) as time_ms
    from intermediate.turn_closers
    group by all
)

select
    -- Session of the turn.
    t.session_id,
    -- Number of the turn, as the log counts it.
    t.turn,
    -- completed, aborted, blocked, error, max-tokens, interrupted, forked or as written; dangling where another turn
    -- was started before its end.
    case when c.turn is not null then 'interrupted' else t.state end as state,
    -- Kind of the reason it ended for; NULL when dangling.
    case when c.turn is not null then 'interrupted' else t.reason_kind end as reason_kind,
    -- Who or what aborted it.
    t.reason_detail,
    -- Code of the failure it ended with.
    t.error_code,
    -- Message of that failure.
    t.error_message,
    -- HTTP status of that failure.
    t.error_status,
    -- Request id of that failure.
    t.error_request_id,
    -- Time the first message it took from the inbox was put there; NULL where the log does not tell.
    t.queued_at,
    -- From then to its start, ms; negative where the clock was set back.
    t.queue_ms,
    -- Time of its `turn/start`.
    t.started_at,
    -- Time of its `turn/end`, of a made-up one that of the session's last event.
    coalesce(t.ended_at, instant(c.time_ms)) as ended_at,
    -- From its start to its end, ms; negative where the clock was set back.
    coalesce(t.duration_ms, c.time_ms - b.start_time_ms) as duration_ms,
    -- Steps it opened.
    t.step_count,
    -- Calls of its steps and compactions that the provider may bill.
    t.attempt_count,
    -- Retries announced in its steps.
    t.retry_count,
    -- Tool calls, nested ones left out.
    t.tool_call_count,
    -- Those whose tool reported an error.
    t.failed_tool_call_count,
    -- Time in which at least one of its tool calls was running, ms; NULL where none tells.
    t.tool_wall_ms,
    -- It has no step.
    t.is_empty,
    -- It has no `turn/end` and gets none: only the last turn of a session is closed.
    t.is_dangling and c.turn is null as is_dangling,
    -- It is dangling and can't be live: the session went on without it.
    t.is_abandoned and c.turn is null as is_abandoned,
    -- Its `turn/end` was written by the harness after a crash or a fork, and stands in the log.
    t.is_repaired,
    -- What it was doing last: claim, request, streaming, tools or stopping; NULL when completed or max-tokens.
    t.last_phase,
    -- Provider of its last attempt; NULL when unknown or without one.
    t.provider,
    -- Model of its last attempt; NULL when unknown or without one.
    t.model,
    -- Uncached prompt tokens.
    t.input_tokens,
    -- Generated tokens, reasoning included.
    t.output_tokens,
    -- Prompt tokens served from the cache.
    t.cache_read_tokens,
    -- Prompt tokens written to the cache.
    t.cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens.
    t.reasoning_tokens,
    -- Input, output and cache buckets.
    t.total_tokens,
    -- What they cost, in the currency of the lake; NULL where no price is known.
    t.cost,
    -- Attempts whose usage is not known: tokens and cost lack them.
    t.unknown_usage_attempt_count,
    -- Attempts of known usage without a price: cost lacks them.
    t.unpriced_attempt_count,
    -- Attempts that hit the output limit with an empty message.
    t.empty_max_tokens_count,
    -- Sequence number of its `turn/start`; NULL where that line is lost.
    t.start_seq,
    -- Sequence number of its `turn/end`, of a made-up one that it would have.
    coalesce(t.end_seq, c.end_seq) as end_seq,
    -- Its `turn/end` is made up: `synthetic_events` has it.
    c.turn is not null as is_synthetic
from marts.turns as t
inner join intermediate.turn_bounds as b using (session_id, turn)
left join closed as c on t.is_dangling and t.session_id = c.session_id and t.turn = c.turn
