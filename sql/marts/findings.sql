-- One row per thing worth knowing about a log, whether the log counts or not.
-- grain: log_id?, ordinal
-- check: severity in ('error', 'warning', 'advisory')

with found as (
    select
        session_id,
        log_id,
        ordinal,
        code,
        invariant,
        severity,
        branch,
        seq,
        line,
        byte_offset,
        line_count,
        detail,
        excerpt
    from staging.findings

    union all

    select
        s.session_id,
        s.log_id,
        null,
        'lineage_cycle',
        null,
        'warning',
        null,
        null,
        null,
        null,
        null,
        'the sessions above it lead back to itself',
        null
    from intermediate.lineage as l
    inner join staging.sessions as s using (session_id)
    where l.is_in_circle

    union all

    select
        s.session_id,
        s.log_id,
        null,
        'approval_unmatched',
        null,
        'warning',
        null,
        a.seq,
        a.line,
        null,
        1,
        'an approval of ' || coalesce(a.tool_name, 'an unnamed tool') || ' belongs to no call that is open',
        null
    from intermediate.approvals as a
    inner join staging.sessions as s using (session_id)
    where not a.is_matched
)

select
    -- Session the log holds; NULL where no log could be made out.
    f.session_id,
    -- Log it is about; NULL where no log could be made out.
    f.log_id,
    -- Position of the finding among those of its log, from 1.
    row_number() over (partition by f.log_id order by f.ordinal nulls last, f.code, f.seq) as ordinal,
    -- Source the log was found under.
    l.source,
    -- Path of the log below its source.
    l.path,
    -- What was found, a name of the list in `docs/findings.md`.
    f.code,
    -- Statement of `docs/invariants.md` that is broken; NULL where it is something else.
    f.invariant,
    -- error: the harness would refuse the log; warning: a reader should know; advisory: harmless.
    f.severity,
    -- Branch of the event it is about.
    f.branch,
    -- Sequence number of that event.
    f.seq,
    -- Line of the log, from 1; the header is line 1.
    f.line,
    -- Offset of that line in the decompressed log; of a damaged frame in the file.
    f.byte_offset,
    -- Consecutive lines it stands for, from that line on; NULL where it is about none.
    f.line_count,
    -- What exactly, in words.
    f.detail,
    -- Start of the line, at most 200 characters.
    f.excerpt
from found as f
left join staging.logs as l using (log_id)
