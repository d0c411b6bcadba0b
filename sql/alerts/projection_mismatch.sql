-- One row per session of which the tables say something else than its log gives.
-- key: session_id

with threshold as (
    -- Prefixes that must have been compared for a difference to count.
    select 1 as checkpoint_count
)

select
    c.session_id,
    null::bigint as turn,
    coalesce(s.last_event_at, s.created_at) as "at",
    'error' as severity,
    coalesce(c.reason, 'tables and log differ') as message,
    c.first_difference_seq,
    c.log_hash,
    c.table_hash
from marts.projection_checks as c
cross join threshold as h
left join marts.sessions as s using (session_id)
where c.status = 'mismatch'
    and c.checkpoint_count >= h.checkpoint_count
order by "at", c.session_id
