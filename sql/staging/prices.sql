-- One row per price card, built in or of the user's own file.
-- grain: price_source, price_id
-- rows depend on: price_source, price_id
-- check: price_source in ('builtin', 'override')
-- check: (peak_factor is null) = (windows is null)

select
    -- Id of the card, unique in its file.
    price_id,
    -- builtin, or override: from the user's own file.
    price_source,
    -- Route the card is for, as the logs name it.
    provider,
    -- Model it is for; with a `*` at its end all whose names start so.
    model,
    -- Currency of its rates.
    currency,
    -- Instant from which it holds; NULL = ever since.
    valid_from,
    -- Instant before which it holds; NULL = open.
    valid_to,
    -- A million uncached prompt tokens, outside peak hours.
    input_price,
    -- A million generated tokens, outside peak hours.
    output_price,
    -- A million cached prompt tokens; NULL = as uncached ones.
    cache_read_price,
    -- A million prompt tokens written to the cache; NULL = as uncached ones.
    cache_write_price,
    -- What rates are multiplied by in peak hours; NULL = there are none.
    peak_factor,
    -- Peak hours in UTC, end exclusive, such as `01:00-04:00 06:00-10:00`.
    windows,
    -- Days that have peak hours: NULL = all, weekdays = Monday to Friday in UTC, cn = in Beijing, without holidays.
    calendar,
    -- Where the card is stated.
    source,
    -- Day it was checked.
    checked_on
from raw.prices
