-- One row per session and session above it in the tree of subagents, itself included.
-- grain: session_id, ancestor_id
-- check: distance >= 0

with recursive parents as (
    -- A fork works on its own, and a parent that is not in the lake ends the tree.
    select s.session_id, p.session_id as parent_id
    from staging.sessions as s
    inner join staging.sessions as p on s.parent_session_id = p.session_id
    where s.origin = 'subagent'
),

reached as (
    select session_id, parent_id as ancestor_id
    from parents

    union

    select r.session_id, p.parent_id
    from reached as r
    inner join parents as p on r.ancestor_id = p.session_id
),

circles as (
    select session_id
    from reached
    where session_id = ancestor_id
),

-- A circle is left where it was entered.
climbed as (
    select s.session_id, s.session_id as ancestor_id, 0::bigint as distance, c.session_id as entered_at_id
    from staging.sessions as s
    left join circles as c using (session_id)

    union all

    select a.session_id, p.parent_id, a.distance + 1, coalesce(a.entered_at_id, c.session_id)
    from climbed as a
    inner join parents as p on a.ancestor_id = p.session_id
    left join circles as c on p.parent_id = c.session_id
    where p.parent_id is distinct from a.entered_at_id
)

select
    -- The session.
    session_id,
    -- The session itself, or one it works for.
    ancestor_id,
    -- Steps from the one to the other; 0 for the session itself.
    distance
from climbed
