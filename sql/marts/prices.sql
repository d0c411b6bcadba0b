-- One row per price card: what calls cost, built in or by the user's own file.
-- grain: price_source, price_id

select
    -- Id of the card, unique in its file.
    p.price_id,
    -- builtin, or override: from the user's own file, which comes first.
    p.price_source,
    -- The card is in the currency of the lake, else it prices nothing.
    p.currency = s.currency as is_applied,
    -- Route the card is for, as the logs name it.
    p.provider,
    -- Model it is for; with a `*` at its end all whose names start so.
    p.model,
    -- Currency of its rates.
    p.currency,
    -- Instant from which it holds; NULL = ever since. A later card of equal rank ends it, too.
    p.valid_from,
    -- Instant before which it holds; NULL = open.
    p.valid_to,
    -- A million uncached prompt tokens, outside peak hours.
    p.input_price,
    -- A million generated tokens, outside peak hours.
    p.output_price,
    -- A million cached prompt tokens; NULL = as uncached ones.
    p.cache_read_price,
    -- A million prompt tokens written to the cache; NULL = as uncached ones.
    p.cache_write_price,
    -- What rates are multiplied by in peak hours; NULL = there are none.
    p.peak_factor,
    -- Peak hours in UTC, end exclusive, such as `01:00-04:00 06:00-10:00`.
    p.windows,
    -- Days that have peak hours: NULL = all, weekdays = Monday to Friday in UTC, cn = in Beijing, without holidays.
    p.calendar,
    -- Where the card is stated.
    p.source,
    -- Day it was checked.
    p.checked_on
from staging.prices as p
cross join staging.settings as s
