-- One row per line of stream chunks (v0 and v1) of a session; the text left out.
-- grain: session_id, line
-- rows depend on: session_id
-- stored as: cached view

select
    -- Session the row belongs to.
    session_id,
    -- 0, and one more each time the sequence numbers of the log go back (two writers).
    branch,
    -- Sequence number of the line's first chunk.
    seq,
    -- Line of the log, from 1; the header is line 1.
    line,
    -- How the chunks are stored: packed, single.
    form,
    -- Turn the chunks belong to.
    turn,
    -- Step the chunks belong to.
    step,
    -- text-delta, reasoning-delta, tool-call-delta, block-start, block-end, usage, finish, or as written.
    chunk_type,
    -- Index of the content block the chunks belong to.
    block_index,
    -- Chunks in the line.
    chunk_count,
    -- Time of the first chunk, Unix ms.
    time_ms,
    -- Time of the last chunk, Unix ms.
    last_time_ms,
    -- Time of the line's first delta that holds text, a tool name or arguments.
    first_token_ms,
    -- Tool call of tool-call deltas.
    call_id,
    -- Tool name of tool-call deltas; NULL where the line has none.
    tool_name,
    -- Kind of the stream's last `finish`: stop, tool-calls, max-tokens, error, aborted.
    finish_kind,
    -- Name of the error in the row, if it has one (tool results).
    error_name,
    -- Code of the failure or error in the row, if it has one.
    error_code,
    -- Message of that failure.
    error_message,
    -- HTTP status of that failure.
    error_status,
    -- Request id of that failure.
    error_request_id,
    -- Uncached prompt tokens of the usage in the row; NULL when absent or invalid.
    input_tokens,
    -- Generated tokens, reasoning included.
    output_tokens,
    -- Prompt tokens served from the cache; NULL when not reported.
    cache_read_tokens,
    -- Prompt tokens written to the cache; NULL when not reported.
    cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens; NULL when not reported.
    reasoning_tokens,
    -- JSON of the usage, where one of its numbers is negative, fractional or no number.
    invalid_usage,
    -- The line was recovered from a torn last frame; the harness will rewrite it.
    is_provisional,
    -- The row is a part of the prefix copied from the parent session.
    is_inherited,
    -- The row holds a usage, valid or not.
    invalid_usage is not null
        or input_tokens is not null
        or output_tokens is not null
        or cache_read_tokens is not null
        or cache_write_tokens is not null
        or reasoning_tokens is not null as has_usage
from raw.chunk_runs
where form <> 'stream'
    and log_id in (select log_id from staging.sessions)
