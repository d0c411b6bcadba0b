-- One tool round trip: what asked for the call, started it, held it up and answered it, in the order of the log.
-- The call that started last, unless `set variable call_id = '…'` (and `session_id`, `turn`) chose another.

with parameters as (
    select session_id, turn, step, call_id, tool_name, called_at, outcome, start_seq, end_seq
    from marts.tool_calls
    left join marts.turns using (session_id, turn)
    where session_id = coalesce(getvariable('session_id'), session_id)
        and turn is not distinct from coalesce(getvariable('turn'), turn)
        and call_id = coalesce(getvariable('call_id'), call_id)
    order by called_at desc nulls last, session_id, turn, step, call_id, ordinal
    limit 1
),

events as (
    select
        e.*,
        p.turn as call_turn,
        p.step as call_step,
        p.call_id as asked_call_id,
        p.called_at,
        e.turn is not distinct from p.turn and e.step is not distinct from p.step as is_in_step,
        e.seq >= coalesce(p.start_seq, 0) and e.seq <= coalesce(p.end_seq, e.seq) as is_in_turn
    from raw.events as e
    semi join staging.sessions using (log_id)
    inner join parameters as p using (session_id)
),

approvals as (
    select distinct related_id
    from events
    where type = 'approval/asked'
        and call_id = asked_call_id
        and is_in_turn
)

select
    session_id,
    call_turn as turn,
    call_step as step,
    asked_call_id as call_id,
    seq,
    "at" as event_at,
    date_diff('millisecond', called_at, "at") as after_call_ms,
    type,
    tool_name,
    coalesce(outcome, error_code, case when is_error then 'error' end) as outcome,
    line,
    byte_offset,
    coalesce(arguments, payload) as text
from events
where (type = 'assistant/message' and is_in_step and list_contains(tool_call_ids, asked_call_id))
    or (type in ('tool/call', 'tool/result') and is_in_step and call_id = asked_call_id)
    or (type in ('approval/asked', 'approval/decided') and is_in_turn and related_id in (from approvals))
    or (contains(type, '-dispatch') and is_in_turn and asked_call_id in (parent_call_id, call_id))
order by line
