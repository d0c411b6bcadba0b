-- One row per tool call that an approval was asked for: how long it waited for people, all questions together.
-- grain: session_id, turn?, step?, call_id, ordinal
-- rows depend on: session_id
-- check: wait_ms is null or wait_ms >= 0

with asked as (
    select
        a.session_id,
        a.turn,
        a.step,
        a.call_id,
        a.ordinal,
        a.decision,
        a.decided_time_ms < a.asked_time_ms as is_clock_skewed,
        -- Both ignore what is NULL: where the call has no start or result it does not cut.
        greatest(a.asked_time_ms, t.call_time_ms) as from_ms,
        case when a.decision is not null then least(a.decided_time_ms, t.result_time_ms) end as until_ms
    from intermediate.approvals as a
    inner join intermediate.tool_spans as t
        on a.session_id = t.session_id
        and a.turn is not distinct from t.turn
        and a.step is not distinct from t.step
        and a.call_id = t.call_id
        and a.ordinal = t.ordinal
),

uncounted as (
    select
        *,
        greatest(
            from_ms,
            max(until_ms) over (
                partition by session_id, turn, step, call_id, ordinal
                order by from_ms, until_ms
                rows between unbounded preceding and 1 preceding
            )
        ) as uncounted_from_ms
    from asked
)

select
    -- Session of the call.
    session_id,
    -- Turn of the call.
    turn,
    -- Step of the call.
    step,
    -- Id of the call.
    call_id,
    -- Number of the call among those of its step with that id.
    ordinal,
    -- Length of the union of its waits within the call, ms; NULL while one is undecided.
    case
        when count_if(decision is null) = 0 then sum(greatest(until_ms - uncounted_from_ms, 0))
    end::bigint as wait_ms,
    -- A person, or the lack of one, said no.
    count_if(decision not in ('allowed-once', 'cancelled')) > 0 as is_denied,
    -- The question was withdrawn.
    count_if(decision = 'cancelled') > 0 as is_cancelled,
    -- An answer is older than its question.
    bool_or(coalesce(is_clock_skewed, false)) as is_clock_skewed
from uncounted
group by all
