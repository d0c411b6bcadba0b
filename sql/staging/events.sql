-- One row per event of a session that is not a stream chunk, the message text left out.
-- grain: session_id, branch, seq
-- rows depend on: session_id
-- stored as: cached view

select
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
    -- Time of the event, Unix ms; not monotonic.
    time_ms,
    -- The payload with U+FFFD for lone surrogates, where it has such and SQL can't parse it; else NULL.
    sql_payload,
    -- append or replace on surface events, else NULL.
    surface_op,
    -- First surface node that a replace shadows.
    replace_start_seq,
    -- Last surface node that a replace shadows.
    replace_end_seq,
    -- `sourceEventSeqs` as pairs first, last of each run, in order; `[]` = known to be empty, NULL = absent.
    source_ranges,
    -- The type is one the format version knows.
    is_known_type,
    -- The line was recovered from a torn last frame; the harness will rewrite it.
    is_provisional,
    -- Turn that the payload names.
    turn,
    -- Step that the payload names.
    step,
    -- Id of the event's message.
    message_id,
    -- Role of the event's message as written.
    role,
    -- Kind of the message's source, or of a title's.
    source_kind,
    -- Plugin, skill or sender that the message's source names.
    source_name,
    -- Tool call the event is about; of a nested dispatch its own sub call.
    call_id,
    -- Call that a nested dispatch belongs to.
    parent_call_id,
    -- Tool the event names.
    tool_name,
    -- Arguments of a tool call as the model wrote them; of a nested dispatch their JSON text.
    arguments,
    -- Those arguments are JSON.
    arguments_is_json,
    -- Arguments of the message's tool-call blocks, in order.
    tool_call_arguments,
    -- Ids of the message's tool-call blocks, in order.
    tool_call_ids,
    -- Tool names of those blocks.
    tool_call_names,
    -- The tool result is marked as an error.
    is_error,
    -- Blocks in the message's content; 0 = an empty message.
    content_block_count,
    -- Reasoning blocks among them.
    reasoning_block_count,
    -- Characters in the text of those blocks, a tool result's inner text included.
    content_chars,
    -- Provider of the call, request or selection.
    provider,
    -- Model of the call, request or selection.
    model,
    -- Tokens the model's window holds, where advertised.
    context_window,
    -- Kind of a turn's end reason; reason of a request header.
    reason_kind,
    -- Kind or text of the reason inside an aborted turn.
    reason_detail,
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
    -- Where that usage stands: message, stream, compaction; NULL without one.
    usage_place,
    -- The message is marked `interrupted`.
    is_interrupted,
    -- Stream chunks embedded in the event (v2 and later).
    chunk_count,
    -- Time of the embedded stream's first non-empty delta.
    first_token_ms,
    -- Time of the embedded stream's last delta.
    last_token_ms,
    -- Time of the embedded stream's last chunk.
    last_chunk_ms,
    -- Id that ties events together: of an approval, compaction, retry, command, hook, job or run.
    related_id,
    -- Outcome or status: approval decision, command kind, workflow outcome, compaction error.
    outcome,
    -- Context tokens a compaction or prune estimates to have shadowed; not usage.
    shadowed_token_count,
    -- Number of a retry, from 1.
    retry,
    -- Delay before a retry, or duration of a hook, in ms.
    delay_ms,
    -- Ids of the messages an inbox splice inserted.
    inserted_ids,
    -- Session the event names: a subagent, a delivery, a team member.
    child_id,
    -- Title, label, preset, policy or mode that the event sets.
    label,
    -- The row is a part of the prefix copied from the parent session.
    is_inherited,
    -- The row holds a usage, valid or not.
    invalid_usage is not null
        or input_tokens is not null
        or output_tokens is not null
        or cache_read_tokens is not null
        or cache_write_tokens is not null
        or reasoning_tokens is not null as has_usage
from raw.events
where log_id in (select log_id from staging.sessions)
