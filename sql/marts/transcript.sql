-- One row per surface event of a session: every message, also what was replaced since and what was inherited.
-- grain: session_id, seq
-- rows depend on: session_id
-- key of: intermediate.surface_nodes
-- stored as: view

with parsed as (
    select
        session_id,
        branch,
        seq,
        type,
        try(payload -> case type when 'user/message' then '$.content' else '$.message.content' end) as content,
        try(
            json_transform(
                payload,
                '{
                    "content": [{"type": "varchar", "text": "varchar", "content": [{"text": "varchar"}]}],
                    "message": {
                        "content": [{"type": "varchar", "text": "varchar", "content": [{"text": "varchar"}]}]
                    }
                }'
            )
        ) as data
    from staging.payloads
    where type in ('user/message', 'assistant/message', 'tool/result', 'system/message', 'developer/message')
),

read as (
    select
        session_id,
        branch,
        seq,
        content::varchar as content,
        list_transform(
            case type when 'user/message' then data.content else data.message.content end,
            lambda block: case block.type
                when 'text' then coalesce(block.text, '')
                when 'tool-result'
                    then array_to_string(list_transform(block.content, lambda part: coalesce(part.text, '')), '')
                else ''
            end
        ) as texts
    from parsed
)

select
    -- Session of the message.
    n.session_id,
    -- Sequence number of the event that owns it.
    n.seq,
    -- Its place in what the model sees: of a message that replaced others the place of the first of them.
    n.order_key,
    -- The event that replaced it; NULL while it stands.
    n.shadowed_by_seq,
    -- Place among the messages at the end of the log, from 0; NULL where it is replaced or without any content.
    n.position,
    -- Event type.
    n.type,
    -- Id of the message.
    n.message_id,
    -- Role as written: up to format 3 that of a tool result is user.
    n.role,
    -- user, assistant, system or developer as written; tool for every tool result.
    case n.type when 'tool/result' then 'tool' else n.role end as role_normalised,
    -- Kind of the message's source.
    n.source_kind,
    -- A person wrote it; NULL where its source is not told.
    n.type = 'user/message' and n.source_kind = 'user' as is_human,
    -- Turn it belongs to; NULL between turns.
    n.turn,
    -- Step it belongs to; NULL between steps.
    n.step,
    -- Time of the event.
    instant(n.time_ms) as event_at,
    -- JSON text of its content; NULL where the payload can't be parsed.
    r.content,
    -- Text of its text blocks, a tool result's inner ones too, joined without anything between; NULL as for content.
    array_to_string(r.texts, '') as text,
    -- Characters in that text.
    length(array_to_string(r.texts, '')) as char_count,
    -- It took the place of others.
    n.is_replacement,
    -- It is a part of the prefix copied from the parent session.
    n.is_inherited,
    -- The log tells which events it was made from, be it none.
    n.source_ranges is not null as sources_known
from intermediate.surface_nodes as n
left join read as r using (session_id, branch, seq)
