-- One row per thing worth knowing about a log, whether the log counts or not.
-- grain: log_id?, ordinal

select
    -- Session the log holds; NULL where no log could be made out.
    session_id,
    -- Log it is about; NULL where no log could be made out.
    log_id,
    -- What was found, a name of the list in `docs/findings.md`.
    code,
    -- Statement of `docs/invariants.md` that is broken; NULL where it is something else.
    invariant,
    -- error: the harness would refuse the log; warning: a reader should know; advisory: harmless.
    severity,
    -- Branch of the event it is about.
    branch,
    -- Sequence number of that event.
    seq,
    -- Line of the log, from 1.
    line,
    -- Offset of that line in the decompressed log; of a damaged frame in the file.
    byte_offset,
    -- Consecutive lines it stands for, from that line on; NULL where it is about none.
    line_count,
    -- What exactly, in words.
    detail,
    -- Start of the line, at most 200 characters.
    excerpt,
    -- Position of the finding among those of its log, from 1.
    row_number() over (
        partition by log_id order by line, byte_offset, code, branch, seq, detail, excerpt
    ) as ordinal
from raw.findings
