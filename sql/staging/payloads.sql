-- One row per event of a session that is not a stream chunk: its payload, as SQL can read it.
-- grain: session_id, branch, seq
-- rows depend on: session_id
-- key of: staging.events

select
    -- Log the row comes from: first 16 hex digits of the SHA-256 of source name and path.
    log_id,
    -- Session the row belongs to.
    session_id,
    -- 0, and one more each time the sequence numbers of the log go back (two writers).
    branch,
    -- Sequence number of the event in its log, from 0.
    seq,
    -- Line of the log, from 1; the header is line 1.
    line,
    -- Event type, older names normalised.
    type,
    -- JSON text of the event's `data`, with U+FFFD for lone surrogates.
    coalesce(sql_payload, payload) as payload
from raw.events
where log_id in (select log_id from staging.sessions)
