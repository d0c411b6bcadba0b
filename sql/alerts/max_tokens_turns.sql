-- One row per turn in which a step hit the output limit.
-- key: session_id, turn

with threshold as (
    -- Attempts of the turn that were cut off with an empty message: 0 lists every such turn.
    select 0 as empty_max_tokens_count
)

select
    t.session_id,
    t.turn,
    coalesce(t.ended_at, t.started_at) as "at",
    'warning' as severity,
    concat(
        'turn hit the output limit: ',
        coalesce(t.output_tokens::varchar, 'an unknown number of'),
        ' output tokens; empty messages: ',
        t.empty_max_tokens_count
    ) as message,
    t.provider,
    t.model,
    t.output_tokens,
    t.cost
from marts.turns as t
cross join threshold as h
where t.state = 'max-tokens'
    and t.empty_max_tokens_count >= h.empty_max_tokens_count
order by "at", t.session_id, t.turn
