-- Events per queue and step (ms); many entries of one event count as many. bad: deliveries that
-- failed, were lost or were rejected; an entry that is dead after a lost lease counts once.
-- change: open entries (neither done nor dead) at the end of the step, compared with its beginning;
-- highest and lowest: the most and the fewest in between, after any single event. An operator's
-- change (op) opens entries, such as a replay, or closes them, such as a purge; the effect of an
-- undo is unknown.
with parts as (
  select
    queue, event, kind, detail, unix_millis(at) as at_ms,
    try_cast(split_part(event_id, '-', 1) as bigint) as ms,
    try_cast(split_part(event_id, '-', 2) as bigint) as seq,
    split_part(detail, '|', 2) as before,
    split_part(detail, '|', 3) as after,
    try_cast(split_part(detail, '|', 1) as bigint) as first,
    try_cast(split_part(detail, '|', 2) as bigint) as last,
    try_cast(split_part(detail, '|', 4) as bigint) as moved,
    detail rlike '^[0-9]+[|][0-9]+$' as ranged,
    detail rlike '^[^|]*[|][a-z]+[|][a-z]+[|][0-9]+$' as moves
  from {history}
  where _corrupt is null
    and event in ('submitted', 'taken', 'done', 'failed', 'lost', 'dead', 'op')
), sized as (
  select
    *,
    case
      when event <> 'op' then
        case when event = 'submitted' and kind = 'request' and ranged
          then greatest(1, last - first + 1) else 1 end
      when not moves then null
      when before in ('dead', 'done', 'trash') and after in ('waiting', 'pending', 'delayed')
        then moved
      when after in ('dead', 'done', 'trash') and before in ('waiting', 'pending', 'delayed')
        then -moved
    end as entries
  from parts
), changed as (
  select
    *,
    at_ms - at_ms % {step_ms} as step,
    case
      when event in ('submitted', 'op') then entries
      when event in ('done', 'dead') then -entries
      else 0
    end as change
  from sized
  where entries is not null
), levels as (
  select
    *,
    sum(change) over (
      partition by queue, step order by at_ms, ms, seq
      rows between unbounded preceding and current row
    ) as level
  from changed
)
select
  queue, step,
  cast(sum(case when event = 'submitted' then entries else 0 end) as bigint) as submitted,
  cast(sum(case when event = 'taken' then entries else 0 end) as bigint) as taken,
  cast(sum(case when event = 'done' then entries else 0 end) as bigint) as done,
  cast(sum(case when event = 'failed' then entries else 0 end) as bigint) as failed,
  cast(sum(case when event = 'lost' then entries else 0 end) as bigint) as lost,
  cast(sum(case when event = 'dead' then entries else 0 end) as bigint) as dead,
  count(
    case when event in ('failed', 'lost') or (event = 'dead' and coalesce(detail, '') <> 'lost')
      then 1 end
  ) as bad,
  cast(sum(change) as bigint) as change,
  cast(greatest(0, max(level)) as bigint) as highest,
  cast(least(0, min(level)) as bigint) as lowest
from levels
group by queue, step
