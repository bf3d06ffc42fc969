-- Events per queue and step, and the backlog, from the event_counts of steps that divide this step.
-- grown: change of open entries from the beginning of the history to the end of the step; peak: its
-- maximum in the step. before: the minimum number of entries open at the beginning of the history,
-- so that the backlog is never negative. opening (see open_entries): what happened before the first
-- row. Null: unknown, because the history has failures only; a history without them has no row.
with opened as (
  select c.*, h.deliveries, coalesce(o.opened, 0) as opened, coalesce(o.fewest, 0) as fewest
  from {counts} as c
  join {histories} as h on c.queue = h.queue and h.failures
  left join {opening} as o on c.queue = o.queue
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
  cast(sum(case when deliveries then submitted end) as bigint) as submitted,
  cast(sum(case when deliveries then taken end) as bigint) as taken,
  cast(sum(case when deliveries then done end) as bigint) as done,
  cast(sum(failed) as bigint) as failed,
  cast(sum(lost) as bigint) as lost,
  cast(sum(dead) as bigint) as dead,
  cast(sum(bad) as bigint) as bad,
  cast(max_by(case when deliveries then grown end, step) as bigint) as grown,
  cast(max(case when deliveries then peak end) as bigint) as peak,
  cast(max(case when deliveries then before end) as bigint) as before
from bounded
group by queue, from_ms
order by queue, from_ms
