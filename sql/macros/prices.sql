-- Whether the clock of UTC shows a time in one of the windows (`HH:MM-HH:MM`, end exclusive, `24:00` may end one).
create or replace macro is_in_windows(p_at, p_windows) as
    list_bool_or(
        list_transform(
            string_split(p_windows, ' '),
            lambda p_window: strftime(p_at at time zone 'UTC', '%H:%M') >= p_window[1:5]
            and strftime(p_at at time zone 'UTC', '%H:%M') < p_window[7:11]
        )
    );

-- The date that decides whether a calendar has peak hours: that of Beijing for `cn`, else that of UTC.
create or replace macro calendar_date(p_calendar, p_at) as
    (p_at at time zone case p_calendar when 'cn' then 'Asia/Shanghai' else 'UTC' end)::date;

-- A rate in a band: `peak_factor` times as high in peak hours. Cards whose product has more digits are refused.
create or replace macro band_price(p_price, p_peak_factor, p_is_peak) as
    case when p_is_peak then (p_price * p_peak_factor)::decimal(18, 9) else p_price end;

-- What a bucket costs, prices being for a million tokens; exact, and 0 where the bucket is not reported.
create or replace macro bucket_cost(p_tokens, p_price) as
    coalesce(p_tokens * p_price * 0.000001::decimal(7, 6), 0);
