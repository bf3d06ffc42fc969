-- The segments of critical paths, in order and without gaps.
select
  queue, request, cast(place as int) as place, what, id, cast(attempt as int) as attempt, consumer,
  ended, timestamp_millis(from_ms) as from_at, timestamp_millis(to_ms) as to_at,
  to_ms - from_ms as took_ms
from {segments}
order by queue, request, place
