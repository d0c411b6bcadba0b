-- One row per session: where it hangs in the tree of subagents.
-- grain: session_id

with recursive climbed as (
    select
        session_id,
        session_id as ancestor_id,
        [session_id] as seen
    from staging.sessions

    union all

    select c.session_id, p.session_id, list_append(c.seen, p.session_id)
    from climbed as c
    inner join staging.sessions as s on c.ancestor_id = s.session_id
    inner join staging.sessions as p on s.parent_session_id = p.session_id
    where s.origin = 'subagent'
        and not list_contains(c.seen, p.session_id)
)

select
    -- The session.
    session_id,
    -- The session its tree of subagents starts from; itself where it is no subagent or its parent is not in the lake.
    arg_max(ancestor_id, len(seen)) as root_session_id
from climbed
group by all
