-- Tools by the time their calls run, waits for people left out: slowest first.
-- A percentile of few calls says little: `set variable p95_call_count = 20` and `p99_call_count = 100` say how few.

with parameters as (
    select
        coalesce(getvariable('p95_call_count'), 20) as p95_call_count,
        coalesce(getvariable('p99_call_count'), 100) as p99_call_count
)

select
    t.tool_name,
    t.call_count,
    t.measured_count,
    t.open_count,
    t.error_count,
    t.error_ratio,
    t.p50_ms,
    t.p90_ms,
    t.p95_ms,
    t.measured_count >= p.p95_call_count as is_p95_reliable,
    t.p99_ms,
    t.measured_count >= p.p99_call_count as is_p99_reliable,
    t.max_ms
from marts.tool_latency as t
cross join parameters as p
order by t.p95_ms desc nulls last, t.max_ms desc nulls last, t.tool_name
