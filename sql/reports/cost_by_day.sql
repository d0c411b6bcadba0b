-- Cost by UTC day, project and model, with what it lacks.
-- All days, unless `set variable since = '2026-09-14'` or `set variable until = '2026-09-21'` (exclusive) limits them.

with parameters as (
    select cast(getvariable('since') as date) as since, cast(getvariable('until') as date) as until
)

select
    u.day,
    u.project,
    u.provider,
    u.model,
    sum(u.attempt_count)::bigint as attempt_count,
    sum(u.total_tokens)::bigint as total_tokens,
    sum(u.cost)::decimal(38, 12) as cost,
    sum(u.empty_max_tokens_cost)::decimal(38, 12) as empty_max_tokens_cost,
    sum(u.unknown_usage_attempt_count)::bigint as unknown_usage_attempt_count,
    sum(u.unpriced_attempt_count)::bigint as unpriced_attempt_count
from marts.usage_daily as u
cross join parameters as p
where coalesce(u.day >= p.since, p.since is null)
    and coalesce(u.day < p.until, p.until is null)
group by all
order by u.day, u.project, u.provider, u.model
