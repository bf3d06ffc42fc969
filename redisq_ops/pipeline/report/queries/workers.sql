-- Per queue and step: workers, the consumers that held a delivery at some time of the step, and
-- busy, the average number of deliveries in progress. If the end of a delivery is unknown, only its
-- beginning counts. A delivery has a row in each step that it touches.
with held as (
  select
    queue, consumer, taken_ms, coalesce(ended_ms, taken_ms) as until_ms,
    explode(
      sequence(taken_ms - taken_ms % {step_ms}, coalesce(ended_ms, taken_ms), {step_ms})
    ) as step
  from {attempts}
)
select
  queue, timestamp_millis(step) as from_at,
  count(distinct consumer) as workers,
  sum(least(until_ms, step + {step_ms}) - greatest(taken_ms, step)) / cast({step_ms} as double)
    as busy
from held
group by queue, step
order by queue, step
