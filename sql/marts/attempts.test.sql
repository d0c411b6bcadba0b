-- Pricing neither drops nor repeats an attempt.
select a.session_id, a.attempt_id
from intermediate.attempts as a
left join marts.attempts as m using (session_id, attempt_id)
where m.attempt_id is null
