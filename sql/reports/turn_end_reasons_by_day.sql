-- How turns ended, by UTC day and model, all projects together.
-- All days, unless `set variable since = '2026-09-14'` or `set variable until = '2026-09-21'` (exclusive) limits them.

with parameters as (
    select cast(getvariable('since') as date) as since, cast(getvariable('until') as date) as until
),

counted as (
    select r.day, r.provider, r.model, r.state, sum(r.turn_count)::bigint as turn_count
    from marts.turn_end_reasons as r
    cross join parameters as p
    where coalesce(r.day >= p.since, p.since is null)
        and coalesce(r.day < p.until, p.until is null)
    group by all
)

select
    day,
    provider,
    model,
    state,
    turn_count,
    turn_count::double / sum(turn_count) over (partition by day, provider, model) as share
from counted
order by day, provider, model, turn_count desc, state
