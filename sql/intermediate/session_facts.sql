-- One row per session whose events tell of it as a whole: prompts, title, what SQL can't follow.
-- grain: session_id
-- rows depend on: session_id

with own_events as (
    select
        session_id,
        count_if(type = 'user/message' and source_kind = 'user' and surface_op = 'append')::bigint
            as human_prompt_count,
        arg_max(label, seq) filter (where type = 'session/title') as title
    from staging.events
    anti join intermediate.overridden_events using (session_id, branch, seq)
    where not is_inherited
        and type in ('user/message', 'session/title')
    group by all
),

offloaded as (
    select distinct session_id
    from staging.events
    where type = 'image/offload'
)

select
    -- The session.
    session_id,
    -- Own messages typed by a person.
    coalesce(e.human_prompt_count, 0) as human_prompt_count,
    -- Title last given to the session; NULL without one.
    e.title,
    -- Images were taken out of a message of it, its inherited prefix included.
    o.session_id is not null as has_image_offload
from own_events as e
full join offloaded as o using (session_id)
