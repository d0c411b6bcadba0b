-- One row per own step.
-- grain: session_id, turn, step
-- rows depend on: session_id

select
    -- Session of the step.
    session_id,
    -- Turn of the step.
    turn,
    -- Number of the step within its turn.
    step,
    -- Sequence number of its `step/start`; NULL where that line is lost.
    min(seq) filter (where type = 'step/start') as start_seq,
    -- Sequence number of its `step/end`.
    max(seq) filter (where type = 'step/end') as end_seq,
    -- Time of its `step/start`, Unix ms.
    arg_min(time_ms, seq) filter (where type = 'step/start') as start_time_ms,
    -- Time of its `step/end`, Unix ms.
    arg_max(time_ms, seq) filter (where type = 'step/end') as end_time_ms,
    -- Retries announced in it.
    count_if(type = 'llm/retry')::bigint as retry_count
from intermediate.boundaries
where is_current
    and turn is not null
    and step is not null
    and (session_id, turn) in (select (session_id, turn) from intermediate.turn_bounds)
group by all
