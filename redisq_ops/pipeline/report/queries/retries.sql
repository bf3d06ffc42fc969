-- How deliveries end, by attempt. unsaid: not ended yet, or released.
with ends as (
  select
    queue, attempt, count(*) as n,
    count(case when ended = 'done' then 1 end) as done,
    count(case when ended = 'failed' then 1 end) as failed,
    count(case when ended = 'lost' then 1 end) as lost,
    count(case when ended = 'dead' then 1 end) as dead,
    count(case when ended is null then 1 end) as unsaid
  from {attempts}
  group by queue, attempt
)
select *, cast(failed + lost + dead as double) / nullif(n - unsaid, 0) as bad_share
from ends
order by queue, attempt
