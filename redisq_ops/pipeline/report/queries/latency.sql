-- Waits for first deliveries, and run times of deliveries that ended done, per queue and step. A
-- delivery counts in the step in which it began.
with times as (
  select
    queue, taken_ms - taken_ms % {step_ms} as from_ms,
    case when since = 'submitted' then wait_ms end as wait_ms,
    case when ended = 'done' then run_ms end as run_ms
  from {attempts}
), steps as (
  select
    queue, from_ms, count(*) as taken,
    count(wait_ms) as waits, {percentiles_of}(wait_ms, array(0.5, 0.95, 0.99){accuracy}) as wait,
    max(wait_ms) as wait_max_ms,
    count(run_ms) as runs, {percentiles_of}(run_ms, array(0.5, 0.95, 0.99){accuracy}) as run,
    max(run_ms) as run_max_ms
  from times
  group by queue, from_ms
)
select
  queue, timestamp_millis(from_ms) as from_at, taken, waits,
  cast(wait[0] as double) as wait_p50_ms,
  cast(wait[1] as double) as wait_p95_ms,
  cast(wait[2] as double) as wait_p99_ms,
  wait_max_ms, runs,
  cast(run[0] as double) as run_p50_ms,
  cast(run[1] as double) as run_p95_ms,
  cast(run[2] as double) as run_p99_ms,
  run_max_ms
from steps
order by queue, from_ms
