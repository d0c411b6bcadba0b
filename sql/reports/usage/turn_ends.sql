-- How turns ended, by the day they started on.
-- All turns, unless `since` or `until` (exclusive, instants) limits them; days are those of `tz`, UTC if it is not set.

with parameters as (
    select
        cast(getvariable('since') as timestamptz) as since,
        cast(getvariable('until') as timestamptz) as until,
        coalesce(cast(getvariable('tz') as varchar), 'UTC') as tz
)

select cast(t.started_at at time zone q.tz as date) as day, t.state, count(*) as turn_count
from marts.turns as t
cross join parameters as q
where coalesce(t.started_at >= q.since, q.since is null)
    and coalesce(t.started_at < q.until, q.until is null)
group by all
order by day, turn_count desc, t.state
