-- One row per delivery: when the entry's wait for it began, how it ended, and how long it took.
-- since: the event that began the wait (submitted, failed, lost). It and wait_ms are null if the
-- history has no such event: it was trimmed, or a replay or a release began the wait. A delayed
-- entry's wait begins at its ready time. run_ms of lost deliveries is unknown. If "lost" and "dead"
-- are in one call, the delivery ended dead.
with neighbours as (
  select
    *,
    lag(event) over w as previous,
    lag(at_ms) over w as previous_ms,
    lag(case when detail rlike '^[0-9]+$' then try_cast(detail as bigint) end) over w as ready_ms,
    lead(event) over w as next_event,
    lead(event, 2) over w as second_event,
    lead(event_id) over w as next_id,
    lead(event_id, 2) over w as second_id,
    lead(at_ms) over w as next_ms,
    lead(detail) over w as next_detail,
    lead(run_ms) over w as next_run_ms,
    sum(case when event in ('failed', 'lost') then 1 else 0 end) over w as bad
  from {entries}
  window w as (partition by queue, id order by at_ms, ms, seq, rank)
), counted as (
  select
    *,
    max(case when event in ('submitted', 'done', 'dead') then bad end) over w as before
  from neighbours
  window w as (partition by queue, id order by at_ms, ms, seq, rank)
), deliveries as (
  select
    *,
    previous in ('submitted', 'failed', 'lost') as known,
    coalesce(
      next_event = 'lost' and second_event = 'dead' and next_id = second_id, false
    ) as dead_after_lost
  from counted
  where event = 'taken'
), timed as (
  select
    *,
    case when known then previous end as since,
    case
      when known and previous = 'submitted' and kind <> 'request'
        then greatest(previous_ms, coalesce(ready_ms, previous_ms))
      when known then previous_ms
    end as since_ms,
    case
      when dead_after_lost then 'dead'
      when next_event in ('done', 'failed', 'lost', 'dead') then next_event
    end as ended,
    case
      when dead_after_lost then 'lost'
      when next_event = 'dead' then next_detail
    end as reason
  from deliveries
)
select
  queue, kind, id, request, number, nullif({client}, '') as client,
  cast(1 + bad - coalesce(before, 0) as int) as attempt,
  `by` as consumer, since, since_ms, at_ms as taken_ms, ended, reason,
  case when ended is not null then next_ms end as ended_ms,
  case when since_ms is not null then greatest(0, at_ms - since_ms) end as wait_ms,
  case
    when ended is null or ended = 'lost' or coalesce(reason, '') = 'lost' then null
    when ended = 'done' then coalesce(next_run_ms, next_ms - at_ms)
    else next_ms - at_ms
  end as run_ms
from timed
