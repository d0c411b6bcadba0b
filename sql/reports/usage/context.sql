-- How full the context of calls was: calls by model and tenth of the window, 0 to 9, and 10 beyond it.
-- All calls, unless `since` or `until` (exclusive, instants) limits them. The tenth is NULL where it is not known.

with parameters as (
    select
        cast(getvariable('since') as timestamptz) as since,
        cast(getvariable('until') as timestamptz) as until
)

select
    a.provider,
    a.model,
    case
        when a.context_used_ratio = 1 then 9
        when a.context_used_ratio > 1 then 10
        else floor(a.context_used_ratio * 10)
    end::bigint as tenth,
    count(*) as attempt_count,
    max(a.context_used_ratio) as max_ratio
from marts.attempts as a
cross join parameters as q
where coalesce(a.billed_at >= q.since, q.since is null)
    and coalesce(a.billed_at < q.until, q.until is null)
group by all
order by a.provider, a.model, tenth
