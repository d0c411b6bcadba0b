-- One row per tool and UTC day that took too long; the session is that of the slowest call.
-- key: tool_name, day

with threshold as (
    -- Of at least so many timed calls a day, five in a hundred ran for so long, waits for people left out.
    select 20 as measured_count, 60000 as p95_ms
),

calls as (
    select
        day_of(called_at) as day,
        tool_name,
        session_id,
        turn,
        called_at,
        exec_ms,
        row_number() over (
            partition by day_of(called_at), tool_name
            order by exec_ms desc, called_at, session_id, turn, step, call_id, ordinal
        ) as place
    from marts.tool_calls
    where exec_ms is not null
        and not is_clock_skewed
),

days as (
    select
        day,
        tool_name,
        count(*) as measured_count,
        quantile_disc(exec_ms, 0.95) as p95_ms,
        max(exec_ms) as max_ms,
        max(session_id) filter (where place = 1) as session_id,
        max(turn) filter (where place = 1) as turn,
        max(called_at) filter (where place = 1) as called_at
    from calls
    group by all
)

select
    d.session_id,
    d.turn,
    d.called_at as "at",
    'warning' as severity,
    concat(
        'tool ',
        d.tool_name,
        ': 95 of 100 calls of ',
        d.day,
        ' within ',
        d.p95_ms,
        ' ms, the slowest in ',
        d.max_ms,
        ' ms'
    ) as message,
    d.tool_name,
    d.day,
    d.measured_count,
    d.p95_ms,
    d.max_ms
from days as d
cross join threshold as h
where d.measured_count >= h.measured_count
    and d.p95_ms >= h.p95_ms
order by "at", d.tool_name
