-- One row per session: the project it belongs to.
-- grain: session_id

select
    -- The session.
    session_id,
    -- Its folder, in the spelling of the project's first session; NULL without one.
    case
        when cwd is not null
            then first_value(project_path(cwd)) over (partition by project_key(cwd) order by created_at, session_id)
    end as project
from staging.sessions
