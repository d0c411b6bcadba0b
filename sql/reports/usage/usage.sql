-- What calls used and cost, for each of the columns asked for: `set variable keys = ['day', 'model']`; none of them for
-- the total. Columns: day, project, provider, model, session_id, turn, state; those not asked for are NULL.
-- All calls, unless `since` or `until` (exclusive, instants) limits them; days are those of `tz`, UTC if it is not set.

with parameters as (
    select
        cast(coalesce(getvariable('keys'), ['day']) as varchar[]) as keys,
        cast(getvariable('since') as timestamptz) as since,
        cast(getvariable('until') as timestamptz) as until,
        coalesce(cast(getvariable('tz') as varchar), 'UTC') as tz
),

calls as (
    select
        a.*,
        case when list_contains(q.keys, 'day') then cast(a.billed_at at time zone q.tz as date) end as key_day,
        case when list_contains(q.keys, 'project') then p.project end as key_project,
        case when list_contains(q.keys, 'provider') then a.provider end as key_provider,
        case when list_contains(q.keys, 'model') then a.model end as key_model,
        case when list_contains(q.keys, 'session_id') then a.session_id end as key_session_id,
        case when list_contains(q.keys, 'turn') then a.turn end as key_turn,
        case when list_contains(q.keys, 'state') then t.state end as key_state
    from marts.attempts as a
    inner join intermediate.projects as p using (session_id)
    left join marts.turns as t using (session_id, turn)
    cross join parameters as q
    -- A call at no known time belongs to no period, and to all of time.
    where coalesce(a.billed_at >= q.since, q.since is null)
        and coalesce(a.billed_at < q.until, q.until is null)
)

select
    key_day as day,
    key_project as project,
    key_provider as provider,
    key_model as model,
    key_session_id as session_id,
    key_turn as turn,
    key_state as state,
    min(billed_at) as first_at,
    max(billed_at) as last_at,
    count(distinct session_id) as session_count,
    count(distinct case when turn is not null then (session_id, turn) end) as turn_count,
    count(*) as attempt_count,
    sum(input_tokens)::bigint as input_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(cache_read_tokens)::bigint as cache_read_tokens,
    sum(cache_write_tokens)::bigint as cache_write_tokens,
    sum(reasoning_tokens)::bigint as reasoning_tokens,
    sum(total_tokens)::bigint as total_tokens,
    sum(cost)::decimal(38, 12) as cost,
    sum(cache_read_tokens)::double / nullif(
        coalesce(sum(input_tokens), 0) + sum(cache_read_tokens) + coalesce(sum(cache_write_tokens), 0), 0
    ) as cache_hit_ratio,
    count_if(total_tokens is null)::bigint as unknown_usage_attempt_count,
    count_if(total_tokens is not null and cost is null)::bigint as unpriced_attempt_count,
    count_if(is_empty_max_tokens)::bigint as empty_max_tokens_count,
    rolled_up(count_if(is_empty_max_tokens), sum(input_tokens) filter (where is_empty_max_tokens))
        as empty_max_tokens_input_tokens,
    rolled_up(count_if(is_empty_max_tokens), sum(output_tokens) filter (where is_empty_max_tokens))
        as empty_max_tokens_output_tokens,
    rolled_up(count_if(is_empty_max_tokens), sum(total_tokens) filter (where is_empty_max_tokens))
        as empty_max_tokens_total_tokens,
    case
        when count_if(is_empty_max_tokens) = 0 then 0
        else sum(cost) filter (where is_empty_max_tokens)
    end::decimal(38, 12) as empty_max_tokens_cost
from calls
group by all
order by key_day, cost desc nulls last, total_tokens desc nulls last, key_project, key_provider, key_model,
    key_session_id, key_turn
