-- One row: the number of deliveries, and of those for which the history doesn't show the wait.
select count(*) as deliveries, count(case when wait_ms is null then 1 end) as unknown_waits
from {attempts}
