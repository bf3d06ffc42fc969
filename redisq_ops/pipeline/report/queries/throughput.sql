-- Events per queue and step, and the backlog, from the event_counts of steps that divide this step.
-- grown: change of open entries from the beginning of the history to the end of the step; peak: its
-- maximum in the step. before: the minimum number of entries open at the beginning of the history,
-- so that the backlog is never negative. opening (see open_entries): what happened before the first
-- row.
with opened as (
  select c.*, coalesce(o.opened, 0) as opened, coalesce(o.fewest, 0) as fewest
  from {counts} as c left join {opening} as o on c.queue = o.queue
), grown as (
  select *, opened + sum(change) over (partition by queue order by step) as grown from opened
), bounded as (
  select
    *,
    step - step % {step_ms} as from_ms,
    grown - change + highest as peak,
    -least(0, fewest, min(grown - change + lowest) over (partition by queue)) as before
  from grown
)
select
  queue, timestamp_millis(from_ms) as from_at,
  cast(sum(submitted) as bigint) as submitted,
  cast(sum(taken) as bigint) as taken,
  cast(sum(done) as bigint) as done,
  cast(sum(failed) as bigint) as failed,
  cast(sum(lost) as bigint) as lost,
  cast(sum(dead) as bigint) as dead,
  cast(sum(bad) as bigint) as bad,
  cast(max_by(grown, step) as bigint) as grown,
  cast(max(peak) as bigint) as peak,
  cast(max(before) as bigint) as before
from bounded
group by queue, from_ms
order by queue, from_ms
