-- One row per message that the model sees at the end of a session's log, in its order.
-- grain: session_id, position
-- rows depend on: session_id
-- key of: intermediate.surface_nodes
-- stored as: view

select
    -- Session of the message, its inherited ones included.
    session_id,
    -- Place of the message, from 0.
    position,
    -- Sequence number of the event that owns it.
    seq,
    -- Id of the message.
    message_id,
    -- Role as written: up to format 3 that of a tool result is user.
    role,
    -- user, assistant, system or developer as written; tool for every tool result.
    role_normalised,
    -- Kind of the message's source.
    source_kind,
    -- A person wrote it; NULL where its source is not told.
    is_human,
    -- Turn it belongs to; NULL between turns.
    turn,
    -- Step it belongs to; NULL between steps.
    step,
    -- Time of the event.
    event_at,
    -- JSON text of its content; NULL where the payload can't be parsed.
    content,
    -- Text of its text blocks, a tool result's inner ones too, joined without anything between; NULL as for content.
    text,
    -- Characters in that text.
    char_count,
    -- It took the place of others.
    is_replacement,
    -- It is a part of the prefix copied from the parent session.
    is_inherited
from marts.transcript
where position is not null
