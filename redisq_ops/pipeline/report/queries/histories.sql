-- What each queue's history keeps. deliveries: also submissions, deliveries and completions.
-- failures: at least those, as our own queues always do; {foreign} are other programs' kinds.
select
  queue, max(kind) as kind,
  count(case when event in ('submitted', 'taken', 'done') then 1 end) > 0 as deliveries,
  max(kind) not in ({foreign})
    or count(case when event in ('submitted', 'taken', 'done', 'failed', 'lost', 'dead') then 1 end)
      > 0 as failures
from {history}
where queue is not null
group by queue
order by queue
