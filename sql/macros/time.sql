-- Unix ms as an instant; NULL beyond the years 1 to 9999, which no reader could hold.
create or replace macro instant(p_ms) as
    case when p_ms between -62135596800000 and 253402300799999 then make_timestamptz(p_ms * 1000) end;

-- The UTC day of an instant, whatever time zone the reader has set.
create or replace macro day_of(p_at) as (p_at at time zone 'UTC')::date;
