-- One row per call that the provider may bill, of all branches of a session.
-- grain: session_id, attempt_id
-- rows depend on: session_id
-- check: kind in ('model', 'compaction')
-- check: outcome in ('message', 'failed', 'interrupted', 'open')
-- check: usage_source in ('message', 'stream', 'compaction', 'none', 'invalid')
-- check: (total_tokens is null) = (usage_source in ('none', 'invalid'))

with calls as (
    select
        session_id,
        branch,
        turn,
        step,
        'model' as kind,
        null as trace,
        first_line,
        last_line,
        message_line,
        settling_line,
        finish_line,
        usage_line,
        first_token_ms,
        last_token_ms,
        null::bigint as start_time_ms
    from intermediate.slots

    union all

    select session_id, branch, turn, step, 'model', trace, line, line, null, null, null, null, null, null, null
    from intermediate.traced_calls

    union all

    select
        session_id,
        branch,
        turn,
        step,
        'compaction',
        null,
        line,
        line,
        null,
        line,
        null,
        line,
        null,
        null,
        start_time_ms
    from intermediate.compaction_calls
),

last_calls as (
    select session_id, max(first_line) as first_line
    from calls
    group by all
),

numbered as (
    select
        c.*,
        row_number() over log_order as attempt,
        lead(c.first_line) over log_order is not null as is_followed_in_step,
        c.first_line < l.first_line as is_followed
    from calls as c
    inner join last_calls as l using (session_id)
    -- Compactions count through the session, calls of a model through their step.
    window log_order as (
        partition by
            c.session_id,
            c.branch,
            c.kind,
            case when c.kind = 'model' then c.turn end,
            case when c.kind = 'model' then c.step end
        order by c.first_line
    )
),

-- The rows whose facts an attempt may take: its message, attempt or summary event, its usage and finish chunks.
event_facts as (
    select *
    from staging.events
    where not is_inherited
        and type in ('assistant/message', 'assistant/attempt', 'compaction/summary', 'llm/retry')
),

chunk_facts as (
    select *
    from staging.chunk_runs
    where not is_inherited
        and chunk_type in ('usage', 'finish')
),

usages as (
    select
        session_id,
        line,
        time_ms,
        usage_place,
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens,
        invalid_usage
    from event_facts
    where has_usage

    union all

    select
        session_id,
        line,
        time_ms,
        'stream',
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens,
        invalid_usage
    from chunk_facts
    where has_usage
),

-- What the log says about the call itself.
told as (
    select
        n.*,
        m.seq as message_seq,
        m.provider as own_provider,
        m.model as own_model,
        m.content_block_count = 0 as is_empty,
        m.time_ms as settling_time_ms,
        coalesce(m.finish_kind, f.finish_kind) as finish_kind,
        coalesce(m.error_code, f.error_code) as error_code,
        f.time_ms as finish_time_ms,
        u.time_ms as usage_time_ms,
        u.usage_place,
        u.invalid_usage is not null as is_usage_invalid,
        u.input_tokens,
        u.output_tokens,
        u.cache_read_tokens,
        u.cache_write_tokens,
        u.reasoning_tokens
    from numbered as n
    left join event_facts as m
        on n.session_id = m.session_id
        and coalesce(n.settling_line, case when n.trace = 'failed' then n.first_line end) = m.line
    left join chunk_facts as f on n.session_id = f.session_id and n.finish_line = f.line
    left join usages as u on n.session_id = u.session_id and n.usage_line = u.line
),

-- What comes by its place in the log is looked up by few columns: such joins sort all they are given.
-- The first event behind the call that proves it is over.
closings as (
    select c.session_id, c.first_line, b.type as closing_type, b.time_ms as closing_time_ms, b.turn, b.step
    from (select session_id, first_line, last_line from calls) as c
    asof inner join intermediate.boundaries as b
        on c.session_id = b.session_id
        and c.last_line < b.line
),

retries_started as (
    select session_id, line, row_number() over (partition by session_id order by line) as retries_started
    from intermediate.boundaries
    where type = 'llm/retry-started'
),

model_usages as (
    select t.session_id, t.turn, t.step, t.usage_line, r.retries_started
    from (select session_id, turn, step, usage_line from calls where kind = 'model' and usage_line is not null) as t
    asof left join retries_started as r
        on t.session_id = r.session_id
        and t.usage_line > r.line
),

-- Of the usages of one step the old meter keeps the last; the new one the last before each retry that was started.
last_of_steps as (
    select session_id, max(usage_line) as usage_line
    from model_usages
    group by session_id, turn, step
),

last_of_requests as (
    select session_id, max(usage_line) as usage_line
    from model_usages
    group by session_id, turn, step, retries_started
),

-- What a request of a step may start from, at twice its line; a settled call at one more: right behind its own line.
starts as (
    select session_id, branch, turn, step, 2 * line as place, time_ms
    from intermediate.boundaries
    where type in ('step/start', 'llm/retry-started')

    union all

    select
        session_id,
        branch,
        turn,
        step,
        2 * coalesce(settling_line, finish_line) + 1,
        coalesce(settling_time_ms, finish_time_ms)
    from told
    where coalesce(settling_line, finish_line) is not null
),

beginnings as (
    select c.session_id, c.first_line, s.time_ms as begun_time_ms
    from (select session_id, branch, turn, step, first_line from calls) as c
    asof inner join starts as s
        on c.session_id = s.session_id
        and c.branch = s.branch
        and c.turn = s.turn
        and c.step = s.step
        and 2 * c.first_line >= s.place
),

-- Inherited contexts and headers stay in force, hence all events.
contexts as (
    select session_id, line, type, provider, model, context_window
    from staging.events
    where type in ('request/context', 'request/header')
        and model is not null
),

routes as (
    select
        n.session_id,
        n.first_line,
        coalesce(c.provider, h.provider) as request_provider,
        coalesce(c.model, h.model) as request_model,
        c.context_window
    from (select session_id, first_line from calls) as n
    asof left join (select * from contexts where type = 'request/context') as c
        on n.session_id = c.session_id
        and n.first_line > c.line
    asof left join (select * from contexts where type = 'request/header') as h
        on n.session_id = h.session_id
        and n.first_line > h.line
),

judged as (
    select
        t.* exclude (start_time_ms),
        coalesce(t.start_time_ms, b.begun_time_ms) as start_time_ms,
        c.closing_time_ms,
        r.request_provider,
        r.request_model,
        r.context_window,
        e.state as turn_state,
        case
            when t.message_line is not null or t.kind = 'compaction' then 'message'
            when t.finish_kind = 'error' or t.trace = 'failed' then 'failed'
            when t.finish_kind = 'aborted' then 'interrupted'
            when c.closing_type in ('llm/retry', 'llm/retry-started') and c.turn = t.turn and c.step = t.step
                then 'failed'
            when t.is_followed_in_step then 'failed'
            when c.closing_type is null and t.settling_line is null and not t.is_followed then 'open'
            when e.state = 'error' then 'failed'
            else 'interrupted'
        end as outcome
    from told as t
    left join closings as c using (session_id, first_line)
    left join beginnings as b using (session_id, first_line)
    left join routes as r using (session_id, first_line)
    left join intermediate.turn_bounds as e on t.session_id = e.session_id and t.turn = e.turn
),

timed as (
    select
        j.*,
        s.usage_line is not null as is_counted_by_old_meter,
        r.usage_line is not null as is_counted_by_new_meter,
        case
            when outcome <> 'open' then coalesce(settling_time_ms, finish_time_ms, closing_time_ms)
        end as settled_time_ms,
        not is_usage_invalid and input_tokens is not null and output_tokens is not null as is_usage_known
    from judged as j
    left join last_of_steps as s using (session_id, usage_line)
    left join last_of_requests as r using (session_id, usage_line)
)

select
    -- Session of the call.
    session_id,
    -- Stable id: session, turn, step and attempt, or session and number of the compaction; and the branch above 0.
    session_id || case kind
        when 'compaction' then '/compaction/' || attempt
        else '/' || coalesce(turn::varchar, '') || '.' || coalesce(step::varchar, '') || '.' || attempt
    end || case when branch > 0 then '/b' || branch else '' end as attempt_id,
    -- Turn of the call; of a compaction the turn it interrupts, NULL outside.
    turn,
    -- Step of the call.
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
    case when own_model is not null then own_provider else coalesce(request_provider, own_provider) end as provider,
    -- Model called; NULL when unknown.
    coalesce(own_model, request_model) as model,
    -- Kind of the stream's `finish`.
    finish_kind,
    -- Code of the failure.
    error_code,
    -- The message has no content block; NULL without a message.
    case when message_line is not null then is_empty end as is_empty,
    -- The call hit the output limit and its message is empty.
    coalesce(
        message_line is not null
        and is_empty
        and (finish_kind = 'max-tokens' or (finish_kind is null and turn_state = 'max-tokens')),
        false
    ) as is_empty_max_tokens,
    -- Sequence number of the message.
    case when message_line is not null then message_seq end as message_seq,
    -- Line of the log the call starts at: its first row, or the trace that proves it.
    first_line,
    -- Line of its last row.
    last_line,
    -- Line whose usage counts; NULL without one.
    usage_line,
    -- Start of the request, Unix ms.
    start_time_ms,
    -- Time of the first delta that is not empty, Unix ms.
    first_token_ms,
    -- Time of the last delta, Unix ms.
    last_token_ms,
    -- Time the call was over, Unix ms; NULL while it may still run.
    settled_time_ms,
    -- Time of the line whose usage counts, else the end, the last token or the start of the call; Unix ms.
    coalesce(usage_time_ms, settled_time_ms, last_token_ms, start_time_ms) as billed_time_ms,
    -- Uncached prompt tokens; NULL when unknown.
    case when not is_usage_invalid then input_tokens end as input_tokens,
    -- Generated tokens, reasoning included; NULL when unknown.
    case when not is_usage_invalid then output_tokens end as output_tokens,
    -- Prompt tokens served from the cache; NULL when unknown or not reported.
    case when not is_usage_invalid then cache_read_tokens end as cache_read_tokens,
    -- Prompt tokens written to the cache; NULL when unknown or not reported.
    case when not is_usage_invalid then cache_write_tokens end as cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens; NULL when unknown or not reported.
    case when not is_usage_invalid then reasoning_tokens end as reasoning_tokens,
    -- Prompt and output: input, output and the cache buckets reported; NULL when unknown.
    case
        when is_usage_known
            then input_tokens + output_tokens + coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0)
    end as total_tokens,
    -- Where the usage stands: message, stream, compaction; none without one; invalid where it is no usage.
    case
        when is_usage_known then usage_place
        when usage_place is null then 'none'
        else 'invalid'
    end as usage_source,
    -- The meter of the harness counted it up to 0.1.1: the last usage of each step.
    is_counted_by_old_meter,
    -- The meter of the harness counts it since 0.1.2: the last usage of each step, anew from each retry that started.
    is_counted_by_new_meter,
    -- Tokens the model's window holds, as the last `request/context` before the call advertises; NULL where it doesn't.
    context_window
from timed
