-- One row per provider, model and span of time: the card that prices its calls then, if any.
-- grain: provider, model, starts_at
-- rows depend on: provider, model
-- check: (price_id is null) = (price_source is null)

with called as (
    select distinct provider, model
    from intermediate.attempts
    where provider is not null
        and model is not null
),

cards as (
    select p.* exclude (valid_from), coalesce(p.valid_from, instant(-62135596800000)) as valid_from
    from staging.prices as p
    inner join staging.settings as s using (currency)
),

matches as (
    select
        called.provider,
        called.model,
        cards.* exclude (provider, model),
        row_number() over (
            partition by called.provider, called.model
            order by
                cards.price_source = 'override' desc,
                cards.model = called.model desc,
                len(cards.model) desc,
                cards.valid_from desc
        ) as rank
    from called
    inner join cards
        on called.provider = cards.provider
        and case
            when ends_with(cards.model, '*') then starts_with(called.model, left(cards.model, -1))
            else called.model = cards.model
        end
),

starts as (
    select provider, model, valid_from as starts_at
    from matches

    union

    select provider, model, valid_to
    from matches
    where valid_to is not null
),

calendar_ends as (
    select calendar, max(year(date)) as last_year
    from staging.holidays
    group by calendar
)

select
    -- Provider called.
    s.provider,
    -- Model called.
    s.model,
    -- Start of the span, which ends where the next one of the same provider and model starts.
    s.starts_at,
    -- Card in force; NULL where there is none.
    arg_min(m.price_id, m.rank) as price_id,
    -- builtin or override.
    arg_min(m.price_source, m.rank) as price_source,
    -- A million uncached prompt tokens, outside peak hours.
    arg_min(m.input_price, m.rank) as input_price,
    -- A million generated tokens, outside peak hours.
    arg_min(m.output_price, m.rank) as output_price,
    -- A million cached prompt tokens; NULL = as uncached ones.
    arg_min_null(m.cache_read_price, m.rank) as cache_read_price,
    -- A million prompt tokens written to the cache; NULL = as uncached ones.
    arg_min_null(m.cache_write_price, m.rank) as cache_write_price,
    -- What rates are multiplied by in peak hours; NULL = there are none.
    arg_min_null(m.peak_factor, m.rank) as peak_factor,
    -- Peak hours in UTC, end exclusive.
    arg_min_null(m.windows, m.rank) as windows,
    -- Days that have peak hours.
    arg_min_null(m.calendar, m.rank) as calendar,
    -- Last year of that calendar whose holidays are known; NULL where it has none.
    arg_min_null(c.last_year, m.rank) as calendar_last_year
from starts as s
left join matches as m
    on s.provider = m.provider
    and s.model = m.model
    and s.starts_at >= m.valid_from
    and (m.valid_to is null or s.starts_at < m.valid_to)
left join calendar_ends as c on m.calendar = c.calendar
group by all
