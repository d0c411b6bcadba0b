-- One row per session whose messages in the tables are not those that its log gives.

with threshold as (
    -- Messages a session must have for a difference to count.
    select 0 as message_count
)

select
    c.session_id,
    null::bigint as turn,
    coalesce(s.last_event_at, s.created_at) as "at",
    'error' as severity,
    concat('messages differ before event ', c.checked_at_seq, ': ', coalesce(c.reason, 'no reason known')) as message,
    c.checked_at_seq,
    c.python_hash,
    c.sql_hash
from marts.projection_checks as c
cross join threshold as h
left join marts.sessions as s using (session_id)
where not c.is_equal
    and c.message_count >= h.message_count
order by "at", c.session_id
