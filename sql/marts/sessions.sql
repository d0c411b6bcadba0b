-- One row per session: its own work, without what it inherited from a parent.
-- grain: session_id
-- check: (inexact_reason is null) = is_exact
-- check: unknown_usage_attempt_count + unpriced_attempt_count <= attempt_count
-- check: tree_session_count >= 1

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
    select session_id, sum(tool_call_count)::bigint as tool_call_count
    from intermediate.tool_turn_sums
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
        sum(cost)::decimal(38, 12) as cost,
        count_if(total_tokens is null)::bigint as unknown_usage_attempt_count,
        count_if(total_tokens is not null and cost is null)::bigint as unpriced_attempt_count
    from marts.attempts
    group by all
),

tree_sums as (
    select
        t.ancestor_id as session_id,
        count(*) as session_count,
        sum(a.attempt_count)::bigint as attempt_count,
        sum(a.input_tokens)::bigint as input_tokens,
        sum(a.output_tokens)::bigint as output_tokens,
        sum(a.cache_read_tokens)::bigint as cache_read_tokens,
        sum(a.cache_write_tokens)::bigint as cache_write_tokens,
        sum(a.reasoning_tokens)::bigint as reasoning_tokens,
        sum(a.total_tokens)::bigint as total_tokens,
        sum(a.cost)::decimal(38, 12) as cost,
        sum(a.unknown_usage_attempt_count)::bigint as unknown_usage_attempt_count,
        sum(a.unpriced_attempt_count)::bigint as unpriced_attempt_count
    from intermediate.trees as t
    left join attempt_sums as a using (session_id)
    group by all
),

-- What SQL can't follow: a replacement of nothing that is there, images that are taken out of a message.
unfollowed as (
    select f.session_id, 'replacement' as reason
    from staging.findings as f
    semi join staging.sessions using (log_id)
    where f.code = 'INV-06'

    union

    select session_id, 'image_offload'
    from intermediate.session_facts
    where has_image_offload
),

inexact as (
    select session_id, max(reason) as reason
    from unfollowed
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
    -- The tables hold its messages exactly as the harness derives them.
    s.verdict <> 'refused' and not coalesce(s.has_unknown_required_type, false) and i.reason is null as is_exact,
    -- Why they don't: why the log is refused, unknown_type, replacement (of nothing that is there), image_offload.
    case
        when s.verdict = 'refused' then coalesce(s.verdict_reason, 'refused')
        when s.has_unknown_required_type then 'unknown_type'
        else i.reason
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
    coalesce(s.inherited_event_count, 0) as inherited_event_count,
    -- Those events, where the parent is not in the lake: work that no total holds.
    case
        when coalesce(s.parent_session_id in (select session_id from staging.sessions), false) then 0
        else coalesce(s.inherited_event_count, 0)
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
    -- What they cost, in the currency of the lake; NULL where no price is known.
    case when coalesce(a.attempt_count, 0) = 0 then 0 else a.cost end::decimal(38, 12) as cost,
    -- Attempts whose usage is not known: tokens and cost lack them.
    coalesce(a.unknown_usage_attempt_count, 0) as unknown_usage_attempt_count,
    -- Attempts of known usage without a price: cost lacks them.
    coalesce(a.unpriced_attempt_count, 0) as unpriced_attempt_count,
    -- Last title of its own.
    e.title,
    -- Sessions of its tree: itself and the subagents below it, at any depth.
    r.session_count as tree_session_count,
    -- Uncached prompt tokens in its tree.
    rolled_up(r.attempt_count, r.input_tokens) as tree_input_tokens,
    -- Generated tokens, reasoning included in its tree.
    rolled_up(r.attempt_count, r.output_tokens) as tree_output_tokens,
    -- Prompt tokens served from the cache in its tree.
    rolled_up(r.attempt_count, r.cache_read_tokens) as tree_cache_read_tokens,
    -- Prompt tokens written to the cache in its tree.
    rolled_up(r.attempt_count, r.cache_write_tokens) as tree_cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens in its tree.
    rolled_up(r.attempt_count, r.reasoning_tokens) as tree_reasoning_tokens,
    -- Input, output and cache buckets in its tree.
    rolled_up(r.attempt_count, r.total_tokens) as tree_total_tokens,
    -- What they cost in its tree, in the currency of the lake; NULL where no price is known.
    case when coalesce(r.attempt_count, 0) = 0 then 0 else r.cost end::decimal(38, 12) as tree_cost,
    -- Attempts whose usage is not known in its tree: tokens and cost lack them.
    coalesce(r.unknown_usage_attempt_count, 0) as tree_unknown_usage_attempt_count,
    -- Attempts of known usage without a price in its tree: cost lacks them.
    coalesce(r.unpriced_attempt_count, 0) as tree_unpriced_attempt_count
from staging.sessions as s
left join intermediate.projects as p using (session_id)
left join intermediate.lineage as l using (session_id)
left join turn_sums as t using (session_id)
left join step_sums as st using (session_id)
left join tool_sums as c using (session_id)
left join attempt_sums as a using (session_id)
left join tree_sums as r using (session_id)
left join intermediate.session_facts as e using (session_id)
left join inexact as i using (session_id)
