-- One row per UTC day that cost far more than the days before; the session is the dearest of that day.
-- key: day

with threshold as (
    -- So many times the mean of up to seven days of use before, of which there must be some, and at least so much.
    select 3 as factor, 3 as day_count, 1.00::decimal(18, 2) as cost
),

calls as (
    select day_of(billed_at) as day, session_id, billed_at, cost
    from marts.attempts
    where cost is not null
        and billed_at is not null
),

by_session as (
    select day, session_id, sum(cost) as cost, max(billed_at) as billed_at
    from calls
    group by all
),

ranked as (
    select *, row_number() over (partition by day order by cost desc, session_id) as place
    from by_session
),

days as (
    select
        day,
        sum(cost) as cost,
        max(billed_at) as billed_at,
        max(session_id) filter (where place = 1) as session_id
    from ranked
    group by all
),

compared as (
    select
        *,
        sum(cost) over seven_before as cost_before,
        count(*) over seven_before as days_before
    from days
    window seven_before as (order by day rows between 7 preceding and 1 preceding)
)

select
    c.session_id,
    null::bigint as turn,
    c.billed_at as "at",
    'warning' as severity,
    concat(
        c.day,
        ' cost ',
        c.cost::decimal(38, 2),
        ', more than ',
        h.factor,
        ' times the mean of the ',
        c.days_before,
        ' days of use before'
    ) as message,
    c.day,
    c.cost::decimal(38, 12) as cost,
    c.cost_before::decimal(38, 12) as cost_before,
    c.days_before
from compared as c
cross join threshold as h
where c.days_before >= h.day_count
    and c.cost >= h.cost
    -- No division: money stays exact.
    and c.cost * c.days_before > c.cost_before * h.factor
order by "at"
