-- One row per tool call, nested ones included: how it ended and how long it took.
-- grain: session_id, turn?, step?, call_id, ordinal
-- rows depend on: session_id
-- check: outcome in ('ok', 'error', 'denied', 'aborted', 'not_started', 'unknown', 'open')
-- check: (outcome = 'open') = (result_seq is null)

with spawned as (
    select session_id, turn, step, call_id, ordinal, arg_min(child_id, seq) as child_id
    from (
        select
            c.session_id,
            c.seq,
            c.child_id,
            t.turn,
            t.step,
            t.call_id,
            t.ordinal
        from intermediate.tool_marks as c
        inner join intermediate.tool_spans as t
            on c.session_id = t.session_id
            and c.turn = t.turn
            and c.step = t.step
            and c.seq > t.call_seq
            and c.seq < coalesce(t.result_seq, c.seq + 1)
        where c.kind = 'catalog'
            and not t.is_nested
        -- Of several calls that run at once any may have started it.
        qualify count(*) over (partition by c.session_id, c.seq) = 1
    )
    group by all
),

joined as (
    select
        t.*,
        t.result_time_ms - t.call_time_ms as wall_ms,
        case when w.ordinal is null then 0 else w.wait_ms end as approval_wait_ms,
        coalesce(w.is_denied, false) as is_denied,
        coalesce(w.is_cancelled, false) as is_cancelled,
        coalesce(w.is_clock_skewed, false) as is_wait_skewed,
        s.child_id
    from intermediate.tool_spans as t
    left join intermediate.tool_waits as w
        on t.session_id = w.session_id
        and t.turn is not distinct from w.turn
        and t.step is not distinct from w.step
        and t.call_id = w.call_id
        and t.ordinal = w.ordinal
    left join spawned as s
        on t.session_id = s.session_id
        and t.turn = s.turn
        and t.step = s.step
        and t.call_id = s.call_id
        and t.ordinal = s.ordinal
),

-- Until when the calls before it, of its step and of its turn, have filled the time.
filled as (
    select
        *,
        not is_nested and wall_ms >= 0 as fills_time,
        max(case when wall_ms >= 0 then result_time_ms end) over (
            partition by session_id, turn, step, is_nested
            order by call_time_ms, result_time_ms, call_id, ordinal
            rows between unbounded preceding and 1 preceding
        ) as step_filled_until_ms,
        max(case when wall_ms >= 0 then result_time_ms end) over (
            partition by session_id, turn, is_nested
            order by call_time_ms, result_time_ms, step, call_id, ordinal
            rows between unbounded preceding and 1 preceding
        ) as turn_filled_until_ms
    from joined
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
    -- From start to result, ms; NULL without either.
    wall_ms,
    -- Of that, waiting for people to approve, ms; NULL while one is undecided.
    approval_wait_ms,
    -- What is left, ms: the tool's own time.
    wall_ms - approval_wait_ms as exec_ms,
    -- Of its wall time, ms that no earlier call of its step covers: their sum is the length of the union.
    case
        when fills_time
            then greatest(result_time_ms - greatest(call_time_ms, step_filled_until_ms), 0)
    end as step_wall_ms,
    -- Of its wall time, ms that no earlier call of its turn covers.
    case
        when fills_time
            then greatest(result_time_ms - greatest(call_time_ms, turn_filled_until_ms), 0)
    end as turn_wall_ms,
    -- A clock was set back within it, so its times are worth nothing.
    coalesce(wall_ms < 0, false) or is_wait_skewed as is_clock_skewed,
    -- ok, error, denied, aborted, not_started, unknown or open.
    case
        when result_seq is null then 'open'
        when error_code = 'TOOL_NOT_STARTED' then 'not_started'
        when error_code = 'TOOL_OUTCOME_UNKNOWN' then 'unknown'
        when error_code = 'ABORTED_BEFORE_DISPATCH' or error_name = 'AbortError' then 'aborted'
        when is_denied then 'denied'
        when is_cancelled then 'aborted'
        when is_error then 'error'
        else 'ok'
    end as outcome,
    -- Name of the error.
    error_name,
    -- Code of the error.
    error_code,
    -- Characters in the text of the result.
    result_chars,
    -- It ran while another call of its step did; never so for nested calls.
    not is_nested
    and coalesce(
        lead(call_seq) over log_order < coalesce(result_seq, lead(call_seq) over log_order + 1)
        or call_seq < max(coalesce(result_seq, 9223372036854775807)) over (
            log_order rows between unbounded preceding and 1 preceding
        ),
        false
    ) as is_parallel,
    -- Session of the subagent it started, the first of several; NULL where the log does not tell.
    child_id as spawned_session_id
from filled
window log_order as (partition by session_id, turn, step, is_nested, call_seq is null order by call_seq)
