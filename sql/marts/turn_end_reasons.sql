-- One row per UTC day, project, provider, model and state of a turn: how turns ended.
-- grain: day?, project?, provider?, model?, state
-- check: turn_count > 0
-- check: share > 0 and share <= 1

with counted as (
    select
        day_of(t.started_at) as day,
        p.project,
        t.provider,
        t.model,
        t.state,
        count(*) as turn_count
    from marts.turns as t
    inner join intermediate.projects as p using (session_id)
    group by all
)

select
    -- UTC day the turns started; NULL where that is not known.
    day,
    -- Project of the session; NULL when unknown.
    project,
    -- Provider of a turn's last attempt; NULL when unknown or without one.
    provider,
    -- Model of a turn's last attempt; NULL when unknown or without one.
    model,
    -- completed, aborted, blocked, error, max-tokens, interrupted, forked or as written; dangling without an end.
    state,
    -- Turns that ended so.
    turn_count,
    -- Their part among the turns of the same day, project, provider and model, 0 to 1.
    turn_count::double / sum(turn_count) over (partition by day, project, provider, model) as share
from counted
