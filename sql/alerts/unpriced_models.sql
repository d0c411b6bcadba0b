-- One row per provider and model that was used and has no price; the session is that of its last call.
-- key: provider, model

with threshold as (
    -- Calls that may go without a price unnoticed.
    select 0 as unpriced_attempt_count
),

calls as (
    select
        provider,
        model,
        session_id,
        turn,
        billed_at,
        total_tokens,
        row_number() over (
            partition by provider, model
            order by billed_at desc nulls last, session_id, attempt_id
        ) as place
    from marts.attempts
    where total_tokens is not null
        and cost is null
),

models as (
    select
        provider,
        model,
        count(*) as unpriced_attempt_count,
        sum(total_tokens)::bigint as unpriced_tokens,
        max(session_id) filter (where place = 1) as session_id,
        max(turn) filter (where place = 1) as turn,
        max(billed_at) as billed_at
    from calls
    group by all
)

select
    m.session_id,
    m.turn,
    m.billed_at as "at",
    'warning' as severity,
    concat(
        'no price for ',
        coalesce(m.provider, '(unknown provider)'),
        '/',
        coalesce(m.model, '(unknown model)'),
        ': the ',
        m.unpriced_tokens,
        ' tokens it used are in no cost; calls: ',
        m.unpriced_attempt_count
    ) as message,
    m.provider,
    m.model,
    m.unpriced_attempt_count,
    m.unpriced_tokens
from models as m
cross join threshold as h
where m.unpriced_attempt_count > h.unpriced_attempt_count
order by "at", m.provider, m.model
