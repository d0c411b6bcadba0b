-- One row per surface event of a session: its place on the surface, and until when it stands there.
-- grain: session_id, seq
-- rows depend on: session_id
-- check: shadowed_by_seq is null or shadowed_by_seq > seq
-- check: position is null or shadowed_by_seq is null

with placed as (
    select
        e.*,
        r.seq is not null as is_replacement,
        coalesce(r.first_key, e.seq) as order_key
    from intermediate.surface_events as e
    left join intermediate.replacements as r using (session_id, seq)
),

shadowed as (
    select p.session_id, p.seq, min(r.seq) as shadowed_by_seq
    from placed as p
    inner join intermediate.replacements as r
        on p.session_id = r.session_id
        and p.seq < r.seq
        and p.order_key between r.first_key and r.last_key
    group by all
),

told as (
    select
        p.*,
        s.shadowed_by_seq,
        s.shadowed_by_seq is null
        -- Where all three are missing there is no message: only a log that the harness refuses holds such an event.
        and (p.message_id is not null or p.role is not null or p.content_block_count is not null)
        and not coalesce(
            p.content_block_count = 0
            and p.type in ('assistant/message', 'system/message', 'developer/message'),
            false
        ) as is_message
    from placed as p
    left join shadowed as s using (session_id, seq)
)

select
    -- Session of the event, its inherited prefix included.
    session_id,
    -- Sequence number of the event.
    seq,
    -- Branch of the event.
    branch,
    -- Place on the surface: smaller ones stand before; of a replacement that of the first node it replaces.
    order_key,
    -- The event that replaced it; NULL while it stands.
    shadowed_by_seq,
    -- Place among the messages at the end of the log, from 0; NULL where it is replaced or gives none.
    case when is_message then row_number() over (partition by session_id, is_message order by order_key) - 1 end
        as position,
    -- Event type.
    type,
    -- Pairs first, last of each run of events that the message is made from; `[]` = none, NULL = not told.
    source_ranges,
    -- Time of the event, Unix ms.
    time_ms,
    -- The event is a part of the prefix copied from the parent session.
    is_inherited,
    -- Id of the message.
    message_id,
    -- Role of the message as written.
    role,
    -- Kind of the message's source.
    source_kind,
    -- Turn of the message; NULL between turns.
    turn,
    -- Step of the message; NULL between steps.
    step,
    -- It takes the place of others.
    is_replacement
from told
