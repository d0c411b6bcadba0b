-- One row per database: what it was built with.
-- grain: currency
-- rows depend on: currency

select
    -- Currency of all costs; cards in others do not apply.
    currency
from raw.settings
