-- One row per log file seen, read or not.
-- grain: log_id
-- rows depend on: session_id

select
    -- Log the row comes from: first 16 hex digits of the SHA-256 of source name and path.
    log_id,
    -- Name of the source the log was found under: NAME of `NAME=PATH`, else the absolute path.
    source,
    -- NAME of `NAME=PATH`; NULL where no name was given.
    machine,
    -- Path of the file below its source; `archive.zip!/entry` inside an export ZIP.
    path,
    -- Name of the file.
    file_name,
    -- How the lines are stored: raw, zstd.
    container,
    -- Session the log holds, unique in the lake among the logs that are not superseded.
    session_id,
    -- Session id as the header states it; NULL without a readable header.
    header_id,
    -- Generation by the file name (`session.v3.jsonl` is 3); NULL for any other name.
    generation,
    -- Version the header states; NULL without one.
    format_version,
    -- real, mixed (real header, tutorial lines), tutorial, headerless; NULL when nothing was read.
    dialect,
    -- Time the session was created, by its header; without one the first time in the log.
    created_at,
    -- Header `cwd` as written.
    cwd,
    -- Header `parentSession`.
    parent_session_id,
    -- Header `origin`: subagent, or NULL.
    origin,
    -- Header `delegationDepth`.
    delegation_depth,
    -- Header `agentPreset`.
    agent_preset,
    -- The log starts with a prefix copied from its parent.
    is_seeded,
    -- Leading events copied from the parent: events with a smaller seq are not the session's own.
    inherited_event_count,
    -- Size of the file.
    bytes,
    -- Size of its lines after decompression.
    decoded_bytes,
    -- Complete lines, the header included.
    line_count,
    -- Readable events, chunks expanded, accepted or not.
    event_count,
    -- Events the harness would accept: those of branch 0 with a smaller seq; 0 when refused.
    accepted_event_count,
    -- Complete lines from the first bad one on, which the harness drops.
    dropped_record_count,
    -- What the harness would do: clean, removable_tail, refused.
    verdict,
    -- Why it is not clean.
    verdict_reason,
    -- The file ends inside a line or a frame.
    is_torn,
    -- Bytes of the file behind its last complete line or frame.
    torn_bytes,
    -- Rows were read from the log.
    is_read,
    -- An event of a type unknown to the harness is not marked ignorable.
    has_unknown_required_type,
    -- Smallest time of an own event.
    first_event_at,
    -- Largest time of an own event.
    last_event_at,
    -- Own events whose time is less than that of the event before.
    clock_anomaly_count,
    -- log_id of the log that counts instead of this one.
    superseded_by,
    -- generation, copy, diverged_copy.
    superseded_why,
    -- The file was there in an earlier build and is gone.
    is_missing
from raw.logs
