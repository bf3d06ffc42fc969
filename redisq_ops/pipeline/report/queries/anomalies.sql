-- Spans of steps that are far from a queue's median: one row per metric and span.
--
-- Far: the robust z = 0.6745 (value - median) / MAD is at least `threshold` (Iglewicz and Hoaglin,
-- "How to Detect and Handle Outliers", 1993), and the distance is at least the metric's floor and
-- `min_share` of the median. If more than half of the values are equal, so that MAD is 0,
-- z = (value - median) / (1.2533 mean absolute deviation). For failures, waits and run times only
-- high values count, for completions only low ones; a step without events counts as 0, if the queue's
-- history has such events. A queue with
-- fewer than `baseline` steps has no rows. Unusual steps with at most `max_gap` steps between them
-- form one span. Waits and run times count in steps with at least `samples` of them.
with counted as (
  select
    queue, unix_millis(from_at) as step,
    cast(submitted as double) as submitted, cast(done as double) as done,
    cast(bad as double) as failed
  from {throughput}
), measured as (
  select
    queue, unix_millis(from_at) as step,
    case when waits >= {samples} then wait_p95_ms end as wait_ms,
    case when runs >= {samples} then run_p95_ms end as run_ms
  from {latency}
), grid as (
  select queue, known, explode(sequence(begun, ended, {step_ms})) as step
  from (
    select queue, count(done) > 0 as known, min(step) as begun, max(step) as ended
    from counted
    group by queue
  ) as extents
), dense as (
  select
    g.queue as queue, g.step as step,
    case when known then coalesce(submitted, 0.0) end as submitted,
    case when known then coalesce(done, 0.0) end as done, coalesce(failed, 0.0) as failed
  from grid as g left join counted as c on g.queue = c.queue and g.step = c.step
), samples as (
  select queue, step, metric, value
  from dense unpivot (value for metric in (submitted, done, failed))
  union all
  select queue, step, metric, value
  from measured unpivot (value for metric in (wait_ms, run_ms))
), medians as (
  select
    *,
    percentile(value, 0.5) over (partition by queue, metric) as median,
    count(*) over (partition by queue, metric) as steps
  from samples
), spread as (
  select
    *,
    percentile(abs(value - median), 0.5) over (partition by queue, metric) as mad,
    avg(abs(value - median)) over (partition by queue, metric) as mean
  from medians
), scored as (
  select
    *,
    case
      when mad > 0 then 0.6745 * (value - median) / mad
      when mean > 0 then (value - median) / (1.2533 * mean)
    end as z,
    case {floors} end as floor
  from spread
), unusual as (
  select *, case when z > 0 then 'above' else 'below' end as side
  from scored
  where steps >= {baseline} and abs(z) >= {threshold}
    and abs(value - median) >= greatest(floor, {min_share} * median)
    and (metric = 'submitted' or (metric = 'done' and z < 0) or (metric <> 'done' and z > 0))
), begun as (
  select
    *,
    case
      when step - lag(step) over (partition by queue, metric, side order by step)
        > {max_gap} * {step_ms} then 1
      else 0
    end as is_first
  from unusual
), spans as (
  select *, sum(is_first) over (partition by queue, metric, side order by step) as span from begun
)
select
  queue, metric, side,
  timestamp_millis(min(step)) as from_at,
  timestamp_millis(max(step) + {step_ms}) as to_at,
  max_by(value, abs(z)) as value, max(median) as median, max(mad) as mad, max_by(z, abs(z)) as z
from spans
group by queue, metric, side, span
order by from_at, queue, metric
