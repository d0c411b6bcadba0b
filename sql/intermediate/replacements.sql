-- One row per replacement on the surface of a session: the places it takes, from the first to the last.
-- grain: session_id, seq
-- rows depend on: session_id
-- check: first_key <= last_key

-- Whether a range stands on the surface depends on the replacements before it: each round adds one to `placed`.
with recursive candidates as (
    select
        r.session_id,
        r.seq,
        r.replace_start_seq as start_seq,
        r.replace_end_seq as end_seq,
        row_number() over (partition by r.session_id order by r.seq) as round
    from intermediate.surface_events as r
    inner join intermediate.surface_events as s
        on r.session_id = s.session_id
        and r.replace_start_seq = s.seq
        and r.seq > s.seq
    inner join intermediate.surface_events as e
        on r.session_id = e.session_id
        and r.replace_end_seq = e.seq
        and r.seq > e.seq
    where r.surface_op = 'replace'
),

folded using key (session_id) as (
    select
        session_id,
        0::bigint as round,
        []::struct(seq bigint, first_key bigint, last_key bigint)[] as placed
    from candidates
    group by session_id

    union all

    select
        session_id,
        round,
        case
            when first_key <= last_key and not start_is_replaced and not end_is_replaced
                then list_append(placed, struct_pack(seq := seq, first_key := first_key, last_key := last_key))
            else placed
        end
    from (
        select
            *,
            len(list_filter(placed, lambda r: start_seq < r.seq and first_key between r.first_key and r.last_key)) > 0
                as start_is_replaced,
            len(list_filter(placed, lambda r: end_seq < r.seq and last_key between r.first_key and r.last_key)) > 0
                as end_is_replaced
        from (
            select
                f.placed,
                c.*,
                -- A node that has replaced others stands where the first of them stood.
                coalesce(list_filter(f.placed, lambda r: r.seq = c.start_seq)[1].first_key, c.start_seq) as first_key,
                coalesce(list_filter(f.placed, lambda r: r.seq = c.end_seq)[1].first_key, c.end_seq) as last_key
            from folded as f
            inner join candidates as c
                on f.session_id = c.session_id
                and f.round + 1 = c.round
        ) as keyed
    ) as judged
),

replacements as (
    select session_id, unnest(placed, recursive := true)
    from folded
)

select
    -- Session of the event.
    session_id,
    -- Sequence number of the replacing event.
    seq,
    -- Place of the first node it replaces, which becomes its own.
    first_key,
    -- Place of the last node it replaces.
    last_key
from replacements
