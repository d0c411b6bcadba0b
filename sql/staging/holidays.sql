-- One row per public holiday that has no peak hours.
-- grain: calendar, date
-- rows depend on: calendar, date

select
    -- Calendar the day is in.
    calendar,
    -- The day, by the date of that calendar.
    date,
    -- Name of the holiday.
    name,
    -- Where it is announced.
    source,
    -- Day it was checked.
    checked_on
from raw.holidays
