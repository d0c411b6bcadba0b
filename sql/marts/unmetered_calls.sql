-- One row per model call of which a log states no usage, so that no total holds it.
-- grain: session_id, branch, seq
-- rows depend on: session_id
-- check: kind in ('title', 'web_search')

with requests as (
    select session_id, branch, seq, line, type, time_ms, provider, model
    from staging.events
    where not is_inherited
        and type in ('session/title-llm-request', 'web/deepseek-search-llm-request')
),

turn_edges as (
    select session_id, branch, line, type, turn
    from intermediate.boundaries
    where type in ('turn/start', 'turn/end')
)

select
    -- Session of the call.
    r.session_id,
    -- Branch of the log the call stands in; the calls of all branches were made.
    r.branch,
    -- Sequence number of the event that tells of it.
    r.seq,
    -- Turn that was open then; NULL between turns.
    case when t.type = 'turn/start' then t.turn end as turn,
    -- title: a title for the session; web_search: a search by a model.
    case r.type when 'session/title-llm-request' then 'title' else 'web_search' end as kind,
    -- Provider called; NULL where the event names none.
    r.provider,
    -- Model called.
    r.model,
    -- Time of the request.
    instant(r.time_ms) as requested_at
from requests as r
asof left join turn_edges as t
    on r.session_id = t.session_id
    and r.branch = t.branch
    and r.line > t.line
