-- One row per tool that was called, nested calls included: how often, how well, how fast.
-- grain: tool_name?
-- check: measured_count <= call_count

with calls as (
    select *, case when not is_clock_skewed then exec_ms end as measured_ms
    from marts.tool_calls
)

select
    -- Tool; NULL for results of unknown calls.
    tool_name,
    -- Its calls.
    count(*) as call_count,
    -- Those with a time of their own: ended, decided, no clock set back.
    count(measured_ms) as measured_count,
    -- Those without a result.
    count_if(outcome = 'open')::bigint as open_count,
    -- Those that ended in an error of the tool.
    count_if(outcome = 'error')::bigint as error_count,
    -- Errors over calls.
    count_if(outcome = 'error') / count(*) as error_ratio,
    -- Half of the measured calls took at most so long, ms: the nearest rank, waits for approval left out.
    quantile_disc(measured_ms, 0.5) as p50_ms,
    -- 90 of 100 took at most so long.
    quantile_disc(measured_ms, 0.9) as p90_ms,
    -- 95 of 100 took at most so long.
    quantile_disc(measured_ms, 0.95) as p95_ms,
    -- 99 of 100 took at most so long.
    quantile_disc(measured_ms, 0.99) as p99_ms,
    -- The slowest took so long.
    max(measured_ms) as max_ms
from calls
group by all
