-- One row per own event that opens or closes a turn, a step or a request.
-- grain: session_id, branch, seq
-- rows depend on: session_id

select
    -- Session of the event.
    e.session_id,
    -- Branch of the event.
    e.branch,
    -- Sequence number of the event.
    e.seq,
    -- Line of the log; the order of a log's rows over all branches.
    e.line,
    -- turn/start, turn/end, step/start, step/end, llm/retry, llm/retry-started or session/end-seed.
    e.type,
    -- Turn the event names.
    e.turn,
    -- Step the event names.
    e.step,
    -- Time of the event, Unix ms.
    e.time_ms,
    -- No later branch has written the event again.
    o.seq is null as is_current
from staging.events as e
left join intermediate.overridden_events as o using (session_id, branch, seq)
where not e.is_inherited
    and e.type in (
        'turn/start',
        'turn/end',
        'step/start',
        'step/end',
        'llm/retry',
        'llm/retry-started',
        'session/end-seed'
    )
