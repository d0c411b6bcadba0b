-- Tokens by UTC day, provider and model, and what part of them empty messages at the output limit used up.
-- All days, unless `set variable since = '2026-09-14'` or `set variable until = '2026-09-21'` (exclusive) limits them.

with parameters as (
    select cast(getvariable('since') as date) as since, cast(getvariable('until') as date) as until
)

select
    u.day,
    u.provider,
    u.model,
    sum(u.attempt_count)::bigint as attempt_count,
    sum(u.input_tokens)::bigint as input_tokens,
    sum(u.output_tokens)::bigint as output_tokens,
    sum(u.cache_read_tokens)::bigint as cache_read_tokens,
    sum(u.cache_write_tokens)::bigint as cache_write_tokens,
    sum(u.reasoning_tokens)::bigint as reasoning_tokens,
    sum(u.total_tokens)::bigint as total_tokens,
    sum(u.unknown_usage_attempt_count)::bigint as unknown_usage_attempt_count,
    sum(u.empty_max_tokens_count)::bigint as empty_max_tokens_count,
    sum(u.empty_max_tokens_total_tokens)::bigint as empty_max_tokens_total_tokens,
    sum(u.empty_max_tokens_total_tokens)::double / nullif(sum(u.total_tokens), 0) as empty_max_tokens_share
from marts.usage_daily as u
cross join parameters as p
where coalesce(u.day >= p.since, p.since is null)
    and coalesce(u.day < p.until, p.until is null)
group by all
order by u.day, u.provider, u.model
