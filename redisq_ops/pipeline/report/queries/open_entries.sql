-- One row per queue: the change of open entries over all steps of event_counts (opened), and the
-- minimum of that change after any event (fewest).
with grown as (
  select *, sum(change) over (partition by queue order by step) as grown from {counts}
)
select
  queue,
  cast(max_by(grown, step) as bigint) as opened,
  cast(min(grown - change + lowest) as bigint) as fewest
from grown
group by queue
