-- One row per session whose messages were derived a second time, outside SQL, and compared.
-- grain: session_id

select
    -- The session.
    session_id,
    -- Events with a smaller seq were compared.
    null::bigint as checked_at_seq,
    -- Both derivations give the same messages.
    null::boolean as is_equal,
    -- What differs, or why nothing could be compared.
    null::varchar as reason,
    -- SHA-256 chain over the messages derived outside SQL.
    null::varchar as python_hash,
    -- SHA-256 chain over the messages of the tables.
    null::varchar as sql_hash,
    -- Messages compared.
    null::bigint as message_count
from staging.sessions
where false
