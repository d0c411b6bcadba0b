-- A sum over attempts: 0 where nothing was called, NULL where nothing is known, else the sum of what is known.
create or replace macro rolled_up(p_attempt_count, p_sum) as
    case when coalesce(p_attempt_count, 0) = 0 then 0 else p_sum end::bigint;
