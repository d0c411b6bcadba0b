-- Calls of tools, how they went and how long they ran, waits for people left out; the last row is of all of them.
-- All calls, unless `since` or `until` (exclusive, instants) limits them by their start, else the start of their turn.

with parameters as (
    select
        cast(getvariable('since') as timestamptz) as since,
        cast(getvariable('until') as timestamptz) as until
),

calls as (
    select c.*, case when not c.is_clock_skewed then c.exec_ms end as measured_ms
    from marts.tool_calls as c
    left join marts.turns as t using (session_id, turn)
    cross join parameters as q
    where coalesce(coalesce(c.called_at, c.result_at, t.started_at) >= q.since, q.since is null)
        and coalesce(coalesce(c.called_at, c.result_at, t.started_at) < q.until, q.until is null)
)

select
    grouping(tool_name) = 1 as is_total,
    tool_name,
    count(*) as call_count,
    count_if(outcome = 'ok')::bigint as ok_count,
    count_if(outcome = 'error')::bigint as error_count,
    count_if(outcome = 'denied')::bigint as denied_count,
    count_if(outcome = 'aborted')::bigint as aborted_count,
    count_if(outcome = 'not_started')::bigint as not_started_count,
    count_if(outcome = 'unknown')::bigint as unknown_count,
    count_if(outcome = 'open')::bigint as open_count,
    count_if(outcome = 'error') / count(*) as error_ratio,
    count(measured_ms) as measured_count,
    quantile_disc(measured_ms, 0.5) as p50_ms,
    quantile_disc(measured_ms, 0.9) as p90_ms,
    quantile_disc(measured_ms, 0.95) as p95_ms,
    quantile_disc(measured_ms, 0.99) as p99_ms,
    max(measured_ms) as max_ms
from calls
group by grouping sets ((tool_name), ())
having count(*) > 0
order by is_total, call_count desc, tool_name
