-- Models whose calls have no price, with what the total cost lacks of them.
-- All calls, unless `since` or `until` (exclusive, instants) limits them.

with parameters as (
    select
        cast(getvariable('since') as timestamptz) as since,
        cast(getvariable('until') as timestamptz) as until
)

select
    coalesce(a.provider, 'unknown provider') || '/' || coalesce(a.model, 'unknown model') as model,
    count(*) as attempt_count,
    sum(a.total_tokens)::bigint as total_tokens
from marts.attempts as a
cross join parameters as q
where a.total_tokens is not null
    and a.cost is null
    and coalesce(a.billed_at >= q.since, q.since is null)
    and coalesce(a.billed_at < q.until, q.until is null)
group by all
order by model
