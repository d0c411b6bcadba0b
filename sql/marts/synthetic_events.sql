-- One row per event that the harness would append to close an open last turn when it loads the session again.
-- grain: session_id, seq
-- rows depend on: session_id
-- check: type in ('tool/result', 'step/end', 'turn/end')
-- check: (error_code is null) = (type <> 'tool/result')

select
    -- Session of the event.
    session_id,
    -- Sequence number it would have.
    seq,
    -- tool/result, step/end or turn/end.
    type,
    -- The open turn.
    turn,
    -- Step of the message that advertised the call; the open step; NULL for the end of the turn.
    step,
    -- The call a result is made up for.
    call_id,
    -- Sequence number of its `tool/call`; NULL where it was never started.
    call_seq,
    -- TOOL_OUTCOME_UNKNOWN for a call that was started, TOOL_NOT_STARTED for any other.
    error_code,
    -- Time it would have, that of the last event.
    instant(time_ms) as event_at
from intermediate.turn_closers
