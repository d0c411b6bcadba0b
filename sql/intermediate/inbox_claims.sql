-- One row per own turn that took a message out of the inbox: the first it took, and when that was queued.
-- grain: session_id, turn
-- rows depend on: session_id

with inbox_events as (
    select session_id, branch, seq, type, time_ms, message_id, inserted_ids
    from staging.events
    where not is_inherited
        and (
            (type = 'agent/inbox/spliced' and len(inserted_ids) > 0)
            or (type = 'user/message' and surface_op = 'append')
        )
),

current_events as (
    select *
    from inbox_events
    anti join intermediate.overridden_events using (session_id, branch, seq)
),

inserted as (
    select session_id, seq, time_ms, unnest(inserted_ids) as message_id
    from current_events
    where type = 'agent/inbox/spliced'
),

queued as (
    select session_id, message_id, min(seq) as queued_seq, arg_min(time_ms, seq) as queued_time_ms
    from inserted
    group by all
),

claimed as (
    select e.session_id, e.seq, e.message_id, q.queued_time_ms
    from current_events as e
    inner join queued as q
        on e.session_id = q.session_id
        and e.message_id = q.message_id
        and e.seq > q.queued_seq
    where e.type = 'user/message'
),

with_edges as (
    select session_id, seq, 'message' as type, null as turn, message_id, queued_time_ms
    from claimed

    union all

    select session_id, seq, type, turn, null, null
    from intermediate.boundaries
    where is_current
        and type in ('turn/start', 'turn/end')
),

-- The number of edges seen so far names the stretch between two of them.
in_stretches as (
    select *, count_if(type <> 'message') over (partition by session_id order by seq)::bigint as stretch
    from with_edges
),

in_turns as (
    select
        *,
        min(turn) over (partition by session_id, stretch) as open_turn,
        bool_or(type = 'turn/start') over (partition by session_id, stretch) as is_in_turn
    from in_stretches
)

select
    -- Session of the turn.
    session_id,
    -- Number of the turn.
    open_turn as turn,
    -- The first queued message that became visible in it.
    arg_min(message_id, seq) as message_id,
    -- Time that message was put into the inbox, Unix ms.
    arg_min(queued_time_ms, seq) as queued_time_ms
from in_turns
where type = 'message'
    and is_in_turn
    and open_turn is not null
group by all
