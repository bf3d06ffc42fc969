-- Requests that ended within the history, the slowest first.
with submissions as (
  select
    queue, coalesce(request, id) as request, unix_millis(at) as at_ms,
    case when detail rlike '^[0-9]+[|][0-9]+$'
      then greatest(1, try_cast(split_part(detail, '|', 2) as bigint)
        - try_cast(split_part(detail, '|', 1) as bigint) + 1)
      else 1
    end as entries
  from {history}
  where _corrupt is null and event = 'submitted' and kind = 'request'
), submitted as (
  select queue, request, min(at_ms) as submitted_ms, cast(sum(entries) as bigint) as entries
  from submissions
  group by queue, request
), ended as (
  select queue, coalesce(request, id) as request, max(unix_millis(at)) as done_ms
  from {history}
  where event = 'request-done'
  group by queue, coalesce(request, id)
), delivered as (
  select
    queue, request, count(*) as deliveries,
    count(case when ended in ('failed', 'lost', 'dead') then 1 end) as bad,
    count(case when ended = 'dead' then 1 end) as dead
  from {attempts}
  where request is not null
  group by queue, request
)
select
  e.queue as queue, e.request as request, timestamp_millis(done_ms) as done_at,
  timestamp_millis(submitted_ms) as submitted_at, entries,
  coalesce(deliveries, 0) as deliveries, coalesce(bad, 0) as bad, coalesce(dead, 0) as dead,
  done_ms - submitted_ms as took_ms
from ended as e
join submitted as s on e.queue = s.queue and e.request = s.request
left join delivered as d on e.queue = d.queue and e.request = d.request
order by took_ms desc, queue, request
