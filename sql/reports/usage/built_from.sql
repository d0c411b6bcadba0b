-- One row: what the database was built from, and what is missing of it whatever the period.

with logs as (
    select
        count(*) filter (where superseded_by is null and coalesce(is_read, false)) as log_count,
        count(*) filter (where superseded_by is null and coalesce(is_read, false) and verdict = 'refused')
            as refused_log_count,
        count(*) filter (where superseded_by is null and not coalesce(is_read, false)) as unread_log_count,
        coalesce(sum(unread_line_count) filter (where superseded_by is null), 0)::bigint as unread_line_count,
        max(last_event_at) filter (where superseded_by is null) as last_event_at
    from raw.logs
),

sessions as (
    select
        count(*) filter (where orphan_prefix_event_count > 0) as orphan_prefix_session_count,
        coalesce(sum(orphan_prefix_event_count), 0)::bigint as orphan_prefix_event_count
    from marts.sessions
)

select
    logs.*,
    sessions.*,
    (select count(*) from marts.attempts where billed_at is null) as undated_attempt_count,
    (select max(billed_at) from marts.attempts) as last_billed_at,
    (select max(finished_at) from raw.loads) as built_at,
    (select max(checked_on) from marts.prices where price_source = 'builtin' and is_applied)
        as price_table_checked_on,
    (select count(*) from marts.prices where price_source = 'override' and is_applied) as override_price_count,
    (select max(currency) from staging.settings) as currency
from logs
cross join sessions
