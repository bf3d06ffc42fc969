-- Each queue over the whole time, the busiest first: counts, when its events begin, what was open
-- before (see throughput), and the highest hourly p99 of waits and run times. Null: unknown.
with counted as (
  select
    queue, min(from_at) as from_at,
    cast(sum(submitted) as bigint) as submitted, cast(sum(taken) as bigint) as taken,
    cast(sum(done) as bigint) as done, cast(sum(failed) as bigint) as failed,
    cast(sum(lost) as bigint) as lost, cast(sum(dead) as bigint) as dead,
    cast(sum(bad) as bigint) as bad, max(before) as before
  from {throughput}
  group by queue
), timed as (
  select queue, max(wait_p99_ms) as wait_p99_ms, max(run_p99_ms) as run_p99_ms
  from {latency}
  group by queue
)
select c.*, wait_p99_ms, run_p99_ms
from counted as c left join timed as t on c.queue = t.queue
order by
  greatest(coalesce(submitted, 0), coalesce(taken, 0), coalesce(done, 0), failed, lost, dead, bad)
    desc,
  c.queue
