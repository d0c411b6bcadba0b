-- One row per UTC day, project, provider, model and kind of call: what was used.
-- grain: day?, project?, provider?, model?, kind
-- check: attempt_count > 0
-- check: unknown_usage_attempt_count + unpriced_attempt_count <= attempt_count
-- check: empty_max_tokens_count <= attempt_count

select
    -- UTC day of the line whose usage counts; NULL where its time is no instant.
    day_of(a.billed_at) as day,
    -- Project of the session; NULL when unknown.
    p.project,
    -- Provider called; NULL when unknown.
    a.provider,
    -- Model called; NULL when unknown.
    a.model,
    -- model or compaction.
    a.kind,
    -- Calls the provider may bill.
    count(*) as attempt_count,
    -- Uncached prompt tokens; NULL where no attempt tells.
    sum(a.input_tokens)::bigint as input_tokens,
    -- Generated tokens, reasoning included.
    sum(a.output_tokens)::bigint as output_tokens,
    -- Prompt tokens served from the cache.
    sum(a.cache_read_tokens)::bigint as cache_read_tokens,
    -- Prompt tokens written to the cache.
    sum(a.cache_write_tokens)::bigint as cache_write_tokens,
    -- Reasoning tokens, a part of output_tokens.
    sum(a.reasoning_tokens)::bigint as reasoning_tokens,
    -- Input, output and cache buckets.
    sum(a.total_tokens)::bigint as total_tokens,
    -- What they cost, in the currency of the lake; NULL where no price is known.
    sum(a.cost)::decimal(38, 12) as cost,
    -- Attempts whose usage is not known: tokens and cost lack them.
    count_if(a.total_tokens is null)::bigint as unknown_usage_attempt_count,
    -- Attempts of known usage without a price: cost lacks them.
    count_if(a.total_tokens is not null and a.cost is null)::bigint as unpriced_attempt_count,
    -- Cached part of the prompt, 0 to 1; NULL where no attempt reports it.
    sum(a.cache_read_tokens)::double / nullif(
        coalesce(sum(a.input_tokens), 0) + sum(a.cache_read_tokens) + coalesce(sum(a.cache_write_tokens), 0), 0
    )::double as cache_hit_ratio,
    -- Attempts that hit the output limit with an empty message.
    count_if(a.is_empty_max_tokens)::bigint as empty_max_tokens_count,
    -- Uncached prompt tokens of those.
    rolled_up(count_if(a.is_empty_max_tokens), sum(a.input_tokens) filter (where a.is_empty_max_tokens))
        as empty_max_tokens_input_tokens,
    -- Generated tokens of those.
    rolled_up(count_if(a.is_empty_max_tokens), sum(a.output_tokens) filter (where a.is_empty_max_tokens))
        as empty_max_tokens_output_tokens,
    -- Input, output and cache buckets of those.
    rolled_up(count_if(a.is_empty_max_tokens), sum(a.total_tokens) filter (where a.is_empty_max_tokens))
        as empty_max_tokens_total_tokens,
    -- What those cost; NULL where no price is known.
    case
        when count_if(a.is_empty_max_tokens) = 0 then 0
        else sum(a.cost) filter (where a.is_empty_max_tokens)
    end::decimal(38, 12) as empty_max_tokens_cost
from marts.attempts as a
inner join intermediate.projects as p using (session_id)
group by all
