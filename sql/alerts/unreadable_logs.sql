-- One row per log that no row could be read of, that the harness would refuse, or that could not even be opened.
-- key: source, path, message

with threshold as (
    -- What the harness would do with a log that is worth a look.
    select ['refused'] as verdicts
),

logs as (
    select
        l.session_id,
        coalesce(l.last_event_at, l.created_at) as found_at,
        concat(
            case when l.is_read then 'the harness would refuse the log' else 'the log was not read' end,
            ': ',
            coalesce(l.verdict_reason, 'no reason known')
        ) as what,
        l.source,
        l.path
    from staging.logs as l
    cross join threshold as h
    where l.superseded_by is null
        and (list_contains(h.verdicts, l.verdict) or not l.is_read)
),

-- Files and folders in which no log could be made out.
unopened as (
    select f.session_id, null::timestamptz as found_at, concat(f.code, ': ', f.detail) as what, f.source, f.path
    from marts.findings as f
    where f.log_id is null
        and f.severity = 'error'
)

select
    session_id,
    null::bigint as turn,
    found_at as "at",
    'error' as severity,
    what as message,
    source,
    path
from (from logs union all from unopened)
order by "at" nulls last, source, path, message
