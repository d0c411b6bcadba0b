-- Calls of models of which a log states no usage, by kind.
-- All calls, unless `since` or `until` (exclusive, instants) limits them.

with parameters as (
    select
        cast(getvariable('since') as timestamptz) as since,
        cast(getvariable('until') as timestamptz) as until
)

select u.kind, count(*) as call_count
from marts.unmetered_calls as u
cross join parameters as q
where coalesce(u.requested_at >= q.since, q.since is null)
    and coalesce(u.requested_at < q.until, q.until is null)
group by all
order by u.kind
