-- One row per surface event of a session: of those the harness accepts, of all that can be read where it refuses.
-- grain: session_id, seq
-- rows depend on: session_id
-- check: surface_op in ('append', 'replace')

with counted as (
    select e.*
    from staging.events as e
    inner join staging.sessions as s using (session_id)
    left join intermediate.overridden_events as o using (session_id, branch, seq)
    where e.type in (
            'user/message',
            'assistant/message',
            'tool/result',
            'system/message',
            'developer/message',
            'turn/start',
            'turn/end',
            'step/start',
            'step/end'
        )
        and case
            when s.verdict = 'refused' then o.seq is null
            else e.branch = 0 and e.seq < s.accepted_event_count
        end
),

-- A message event of a later format is an unknown type in an older one.
surface as (
    select *, type in ('user/message', 'system/message') or turn is null as takes_open_turn
    from counted
    where surface_op is not null
        and is_known_type is distinct from false
        and type not in ('turn/start', 'turn/end', 'step/start', 'step/end')
),

-- The turn and step that are open from each bracket on.
brackets as (
    select
        session_id,
        seq,
        case when type <> 'turn/end' then turn end as turn,
        case when type = 'step/start' then step end as step
    from counted
    where type in ('turn/start', 'turn/end', 'step/start', 'step/end')
),

-- Only where it is asked for: such a join sorts all it is given.
open_there as (
    select s.session_id, s.seq, b.turn, b.step
    from (select session_id, seq from surface where takes_open_turn) as s
    asof inner join brackets as b
        on s.session_id = b.session_id
        and s.seq > b.seq
)

select
    -- Session of the event, its inherited prefix included.
    session_id,
    -- Sequence number of the event.
    seq,
    -- Branch of the event.
    s.branch,
    -- Event type.
    s.type,
    -- append or replace.
    s.surface_op,
    -- First surface node that a replace names.
    s.replace_start_seq,
    -- Last surface node that a replace names.
    s.replace_end_seq,
    -- Pairs first, last of each run of events that the message is made from; `[]` = none, NULL = not told.
    s.source_ranges,
    -- Time of the event, Unix ms.
    s.time_ms,
    -- The event is a part of the prefix copied from the parent session.
    s.is_inherited,
    -- Id of the message.
    s.message_id,
    -- Role of the message as written.
    s.role,
    -- Kind of the message's source.
    s.source_kind,
    -- Blocks in the message's content.
    s.content_block_count,
    -- Turn that the message names; of a user or system message the one open at it, NULL between turns.
    case when s.takes_open_turn then b.turn else s.turn end as turn,
    -- Step that the message names; of a user or system message the one open at it, NULL between steps.
    case when s.takes_open_turn then b.step else s.step end as step
from surface as s
left join open_there as b using (session_id, seq)
