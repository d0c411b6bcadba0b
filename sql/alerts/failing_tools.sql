-- One row per tool and UTC day with too many failed calls; the session is that of the last failure.
-- key: tool_name, day

with threshold as (
    -- Of at least so many finished calls a day, so many in a hundred failed.
    select 5 as call_count, 30 as error_percent
),

calls as (
    select
        day_of(called_at) as day,
        tool_name,
        session_id,
        turn,
        coalesce(result_at, called_at) as failed_at,
        outcome = 'error' as is_failed,
        row_number() over (
            partition by day_of(called_at), tool_name, outcome = 'error'
            order by coalesce(result_at, called_at) desc, session_id, turn, step, call_id, ordinal
        ) as place
    from marts.tool_calls
    where outcome in ('ok', 'error')
        and called_at is not null
),

days as (
    select
        day,
        tool_name,
        count(*) as call_count,
        count_if(is_failed)::bigint as failed_count,
        max(session_id) filter (where is_failed and place = 1) as session_id,
        max(turn) filter (where is_failed and place = 1) as turn,
        max(failed_at) filter (where is_failed) as failed_at
    from calls
    group by all
)

select
    d.session_id,
    d.turn,
    d.failed_at as "at",
    'warning' as severity,
    concat('tool ', d.tool_name, ' failed in ', d.failed_count, ' of ', d.call_count, ' calls of ', d.day) as message,
    d.tool_name,
    d.day,
    d.failed_count,
    d.call_count
from days as d
cross join threshold as h
where d.call_count >= h.call_count
    and d.failed_count * 100 >= h.error_percent * d.call_count
order by "at", d.tool_name
