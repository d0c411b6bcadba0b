-- One row per session whose messages, usage and closers were derived a second time, outside SQL, and compared.
-- grain: session_id
-- rows depend on: session_id

select
    -- The session.
    session_id,
    -- Log that holds it.
    log_id,
    -- match; mismatch; not_exact: equal, but not what the model saw; not_checked: nothing to compare with.
    null::varchar as status,
    -- Both derivations give the same; NULL where nothing was compared.
    null::boolean as is_equal,
    -- What differs and where, why it is not exact, or why nothing was compared; NULL for a match.
    null::varchar as reason,
    -- build: the log was followed while it was read; check: it was read again for the check.
    null::varchar as proved_by,
    -- Prefixes compared: one before each request, and the whole.
    null::bigint as checkpoint_count,
    -- Smallest seq before which messages or request header differ; NULL where they differ at the end only, or not.
    null::bigint as first_difference_seq,
    -- Place of the first message at the end that differs, from 0.
    null::bigint as first_difference_position,
    -- The messages of every prefix are equal.
    null::boolean as are_messages_equal,
    -- The request header of every prefix is equal.
    null::boolean as is_header_equal,
    -- Every call has the same tokens.
    null::boolean as is_usage_equal,
    -- The events that would close an open turn are equal.
    null::boolean as are_closers_equal,
    -- Messages at the end by the log.
    null::bigint as log_message_count,
    -- Messages at the end by the tables.
    null::bigint as table_message_count,
    -- Last link of the SHA-256 chain over the messages by the log, 16 hex digits.
    null::varchar as log_hash,
    -- The same by the tables.
    null::varchar as table_hash,
    -- Calls counted in the log, compactions included.
    null::bigint as log_attempt_count,
    -- Calls in the tables.
    null::bigint as table_attempt_count,
    -- Tokens of the calls counted in the log; NULL when unknown.
    null::bigint as log_total_tokens,
    -- Tokens of the calls in the tables; NULL when unknown.
    null::bigint as table_total_tokens,
    -- Findings about invariants of the format that the log breaks, of any severity.
    null::bigint as breach_count,
    -- Those that are errors, at events that the harness accepts all the same.
    null::bigint as error_count
from staging.sessions
where false
