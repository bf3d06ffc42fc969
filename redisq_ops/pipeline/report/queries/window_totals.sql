-- One row per queue and metric over the whole time: numbers of events, percentiles of waits and run
-- times (ms), the number of workers, and dead letters by error group (fingerprint); none of what a
-- queue's history doesn't keep.
with events as (
  select
    c.queue as queue,
    cast(sum(case when deliveries then submitted end) as double) as submitted,
    cast(sum(case when deliveries then taken end) as double) as taken,
    cast(sum(case when deliveries then done end) as double) as done,
    cast(sum(failed) as double) as failed, cast(sum(lost) as double) as lost,
    cast(sum(dead) as double) as dead
  from {counts} as c join {histories} as h on c.queue = h.queue and h.failures
  group by c.queue
), times as (
  select
    queue,
    {percentiles_of}(
      case when since = 'submitted' then wait_ms end, array(0.5, 0.95, 0.99){accuracy}
    ) as wait,
    {percentiles_of}(
      case when ended = 'done' then run_ms end, array(0.5, 0.95, 0.99){accuracy}
    ) as run,
    cast(count(distinct consumer) as double) as workers
  from {attempts}
  group by queue
), wide as (
  select
    e.*,
    cast(wait[0] as double) as wait_p50_ms, cast(wait[1] as double) as wait_p95_ms,
    cast(wait[2] as double) as wait_p99_ms,
    cast(run[0] as double) as run_p50_ms, cast(run[1] as double) as run_p95_ms,
    cast(run[2] as double) as run_p99_ms,
    workers
  from events as e left join times as t on e.queue = t.queue
)
select queue, metric, '' as fingerprint, value
from wide unpivot (
  value for metric in (
    submitted, taken, done, failed, lost, dead,
    wait_p50_ms, wait_p95_ms, wait_p99_ms, run_p50_ms, run_p95_ms, run_p99_ms, workers
  )
)
union all
select queue, 'dead_letters' as metric, fingerprint, cast(count(*) as double) as value
from {dead}
where _corrupt is null and unix_millis(since_at) between {begin_ms} and {end_ms}
group by queue, fingerprint
