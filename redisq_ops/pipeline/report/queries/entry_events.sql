-- The history's events of entries, one row per entry: the submission of a request becomes one row
-- per sub-request. at_ms, ms, seq and rank order the events of an entry: within one call, entries
-- are lost before they are dead, and dead before they are taken again.
with events as (
  select
    *,
    event = 'submitted' and kind = 'request' and detail rlike '^[0-9]+[|][0-9]+$' as ranged,
    try_cast(split_part(detail, '|', 1) as bigint) as first,
    try_cast(split_part(detail, '|', 2) as bigint) as last
  from {history}
  where _corrupt is null and event in ('submitted', 'taken', 'done', 'failed', 'lost', 'dead')
), numbered as (
  select
    *,
    explode(
      case when ranged and last >= first
        then sequence(first, least(last, first + {most} - 1), 1)
        else array(cast(number as bigint))
      end
    ) as of
  from events
)
select
  queue, kind, event, event_id, `by`, detail, run_ms, at, unix_millis(at) as at_ms,
  case when ranged then coalesce(request, id) else request end as request,
  case when ranged then concat_ws('/', coalesce(request, id), cast(of as string)) else id end as id,
  of as number,
  try_cast(split_part(event_id, '-', 1) as bigint) as ms,
  try_cast(split_part(event_id, '-', 2) as bigint) as seq,
  array_position(array('submitted', 'done', 'failed', 'lost', 'dead', 'taken'), event) as rank
from numbered
