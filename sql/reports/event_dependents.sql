-- What was made from an event: the messages whose `sourceEventSeqs` name it, what names those, and so on.
-- The last event that is named, unless `set variable session_id = '…'` and `set variable seq = 12` chose another.

with recursive parameters as (
    select session_id, coalesce(getvariable('seq'), last_seq) as seq
    from intermediate.surface_sources
    where session_id = coalesce(getvariable('session_id'), session_id)
        and coalesce(getvariable('seq') between first_seq and last_seq, true)
    order by seq desc, session_id
    limit 1
),

reached as (
    select session_id, seq, null::bigint as source_seq, 0 as depth
    from parameters

    union

    select s.session_id, s.seq, r.seq, r.depth + 1
    from reached as r
    inner join intermediate.surface_sources as s
        on r.session_id = s.session_id
        and r.seq between s.first_seq and s.last_seq
)

select
    r.session_id,
    p.seq as event_seq,
    r.depth,
    r.source_seq,
    r.seq,
    coalesce(n.shadowed_by_seq = r.seq, false) as is_replacement,
    e.type,
    e."at" as event_at,
    e.line,
    e.byte_offset,
    e.payload as text
from reached as r
inner join parameters as p using (session_id)
inner join intermediate.surface_nodes as o on r.session_id = o.session_id and r.seq = o.seq
inner join raw.events as e on o.session_id = e.session_id and o.branch = e.branch and o.seq = e.seq
semi join staging.sessions as l on e.log_id = l.log_id
left join intermediate.surface_nodes as n on r.session_id = n.session_id and r.source_seq = n.seq
where r.depth > 0
order by r.depth, r.seq, r.source_seq
