-- One row per session: its own work, without what it inherited from a parent.
-- grain: session_id

with turn_sums as (
    select session_id, count(*) as turn_count
    from intermediate.turn_bounds
    group by all
),

step_sums as (
    select session_id, count(*) as step_count
    from intermediate.steps
    group by all
),

tool_sums as (
    select session_id, sum(call_count)::bigint as tool_call_count
    from intermediate.called_tools
    group by all
),

attempt_sums as (
    select
        session_id,
        count(*) as attempt_count,
        sum(input_tokens)::bigint as input_tokens,
        sum(output_tokens)::bigint as output_tokens,
        sum(cache_read_tokens)::bigint as cache_read_tokens,
        sum(cache_write_tokens)::bigint as cache_write_tokens,
        sum(reasoning_tokens)::bigint as reasoning_tokens,
        sum(total_tokens)::bigint as total_tokens,
        count_if(total_tokens is null)::bigint as unknown_usage_attempt_count
    from intermediate.attempts
    group by all
),

own_events as (
    select
        session_id,
        count_if(type = 'user/message' and source_kind = 'user' and surface_op = 'append')::bigint
            as human_prompt_count,
        arg_max(label, seq) filter (where type = 'session/title') as title
    from staging.events
    anti join intermediate.overridden_events using (session_id, branch, seq)
    where not is_inherited
        and type in ('user/message', 'session/title')
    group by all
)

select
    -- The session.
    s.session_id,
    -- Source its log was found under.
    s.source,
    -- Machine it ran on, as the source names it.
    s.machine,
    -- Folder it worked in, in the spelling of the project's first session; NULL without one.
    p.project,
    -- Folder as the header states it.
    s.cwd,
    -- Version of the log; NULL without one.
    s.format_version,
    -- real, mixed (real header, tutorial lines), tutorial or headerless.
    s.dialect,
    -- Preset of the agent.
    s.agent_preset,
    -- What the harness would do with the log: clean, removable_tail, refused.
    s.verdict,
    -- Messages can be derived exactly as the harness would.
    s.verdict <> 'refused' and not coalesce(s.has_unknown_required_type, false) as is_exact,
    -- Why they can't.
    case
        when s.verdict = 'refused' then s.verdict_reason
        when s.has_unknown_required_type then 'unknown_type'
    end as inexact_reason,
    -- Time it was created, by its header.
    s.created_at,
    -- Smallest time of an own event.
    s.first_event_at,
    -- Largest time of an own event.
    s.last_event_at,
    -- Session it was forked from or works for.
    s.parent_session_id,
    -- The session its tree of subagents starts from; itself where it is no subagent or its parent is not in the lake.
    l.root_session_id,
    -- subagent, or NULL.
    s.origin,
    -- How many subagents stand above it.
    s.delegation_depth,
    -- Leading events copied from the parent.
    s.inherited_event_count,
    -- Those events, where the parent is not in the lake: work that no total holds.
    case
        when s.parent_session_id not in (select session_id from staging.sessions) then s.inherited_event_count
        else 0
    end as orphan_prefix_event_count,
    -- Events of the whole log, chunks expanded.
    s.event_count,
    -- Turns of its own.
    coalesce(t.turn_count, 0) as turn_count,
    -- Steps of its own turns.
    coalesce(st.step_count, 0) as step_count,
    -- Calls that the provider may bill, compactions included.
    coalesce(a.attempt_count, 0) as attempt_count,
    -- Tool calls, nested ones left out.
    coalesce(c.tool_call_count, 0) as tool_call_count,
    -- Messages written by a person.
    coalesce(e.human_prompt_count, 0) as human_prompt_count,
    -- Events whose time is less than that of the event before.
    s.clock_anomaly_count,
    -- Uncached prompt tokens.
    rolled_up(a.attempt_count, a.input_tokens) as input_tokens,
    -- Generated tokens, reasoning included.
    rolled_up(a.attempt_count, a.output_tokens) as output_tokens,
    -- Prompt tokens served from the cache.
    rolled_up(a.attempt_count, a.cache_read_tokens) as cache_read_tokens,
    -- Prompt tokens written to the cache.
    rolled_up(a.attempt_count, a.cache_write_tokens) as cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens.
    rolled_up(a.attempt_count, a.reasoning_tokens) as reasoning_tokens,
    -- Input, output and cache buckets.
    rolled_up(a.attempt_count, a.total_tokens) as total_tokens,
    -- Attempts whose usage is not known: the token columns lack them.
    coalesce(a.unknown_usage_attempt_count, 0) as unknown_usage_attempt_count,
    -- Last title of its own.
    e.title
from staging.sessions as s
left join intermediate.projects as p using (session_id)
left join intermediate.lineage as l using (session_id)
left join turn_sums as t using (session_id)
left join step_sums as st using (session_id)
left join tool_sums as c using (session_id)
left join attempt_sums as a using (session_id)
left join own_events as e using (session_id)
