-- One row per session and session above it in the tree of subagents, itself included.
-- grain: session_id, ancestor_id
-- check: distance >= 0

with recursive climbed as (
    select
        session_id,
        session_id as ancestor_id,
        [session_id] as seen
    from staging.sessions

    union all

    -- A fork works on its own; a parent that is not in the lake, and a circle, end the tree.
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
    -- The session itself, or one it works for.
    ancestor_id,
    -- Steps from the one to the other; 0 for the session itself.
    len(seen) - 1 as distance
from climbed
