-- What was found worth knowing about logs, by code: how often and in how many logs. Of all logs, whatever the period.

select code, severity, count(*) as finding_count, count(distinct log_id) as log_count
from marts.findings
group by code, severity
order by list_position(['error', 'warning', 'advisory'], severity), finding_count desc, code
