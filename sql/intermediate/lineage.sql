-- One row per session: where it hangs in the tree of subagents.
-- grain: session_id

with roots as (
    select session_id, arg_max(ancestor_id, distance) as root_session_id
    from intermediate.trees
    group by all
),

-- A session that works for one above which it stands itself.
circles as (
    select t.session_id
    from intermediate.trees as t
    inner join staging.sessions as a on t.ancestor_id = a.session_id
    where a.origin = 'subagent'
        and a.parent_session_id = t.session_id
)

select
    -- The session.
    session_id,
    -- The session its tree of subagents starts from; itself where it is no subagent or its parent is not in the lake.
    root_session_id,
    -- Its parents lead back to itself.
    session_id in (select session_id from circles) as is_in_circle
from roots
