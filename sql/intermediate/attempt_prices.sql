-- One row per attempt: the card that prices it, the band it falls in, what it costs.
-- grain: session_id, attempt_id
-- rows depend on: session_id
-- check: price_source in ('builtin', 'override', 'unpriced') or (price_source is null and cost is null)
-- check: (price_id is null) = (price_window is null)
-- check: cost is null or price_id is not null

with timed as (
    select *, instant(billed_time_ms) as billed_at
    from intermediate.attempts
),

-- A join on time that gives one row for each attempt, whatever the cards are.
carded as (
    select
        a.* exclude (provider, model),
        p.* exclude (provider, model, starts_at),
        calendar_date(p.calendar, a.billed_at) as local_date
    from timed as a
    asof left join intermediate.price_periods as p
        on a.provider = p.provider
        and a.model = p.model
        and a.billed_at >= p.starts_at
),

banded as (
    select
        c.*,
        coalesce(
            is_in_windows(c.billed_at, c.windows)
            and (c.calendar is null or (isodow(c.local_date) <= 5 and h.date is null)),
            false
        ) as is_peak
    from carded as c
    left join staging.holidays as h on c.calendar = h.calendar and c.local_date = h.date
)

select
    -- Session of the attempt.
    session_id,
    -- Id of the attempt.
    attempt_id,
    -- Card that prices it; NULL where none is in force.
    price_id,
    -- builtin or override; unpriced where tokens are known and no card is; NULL where both are unknown.
    case
        when price_id is not null then price_source
        when total_tokens is not null then 'unpriced'
    end as price_source,
    -- flat, peak or off-peak; NULL without a card.
    case
        when price_id is null then null
        when windows is null then 'flat'
        when is_peak then 'peak'
        else 'off-peak'
    end as price_window,
    -- What was assumed in pricing it; NULL where nothing was.
    case
        when price_id is not null
            then nullif(
                concat_ws(
                    '; ',
                    case
                        when year(local_date) > calendar_last_year
                            then 'holiday calendar ends ' || calendar_last_year
                    end,
                    case when cache_read_tokens > 0 and cache_read_price is null then 'cache read priced as input' end,
                    case
                        when cache_write_tokens > 0 and cache_write_price is null
                            then 'cache write priced as input'
                    end
                ),
                ''
            )
    end as price_note,
    -- What it costs in the currency of the lake; NULL where tokens or card are unknown.
    case
        when price_id is not null and total_tokens is not null
            then (
                bucket_cost(input_tokens, band_price(input_price, peak_factor, is_peak))
                + bucket_cost(output_tokens, band_price(output_price, peak_factor, is_peak))
                + bucket_cost(
                    cache_read_tokens,
                    band_price(coalesce(cache_read_price, input_price), peak_factor, is_peak)
                )
                + bucket_cost(
                    cache_write_tokens,
                    band_price(coalesce(cache_write_price, input_price), peak_factor, is_peak)
                )
            )::decimal(38, 12)
    end as cost
from banded
