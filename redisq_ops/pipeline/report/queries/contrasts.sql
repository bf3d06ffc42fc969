-- Values that are more frequent in a group than in the rest of the queue's dead letters. As in
-- `redisq dlq group`: shares are compared by the lower bound of their difference (surely), and the
-- `max_traits` values with the highest bound are kept. A queue with one group has no rows: there is
-- nothing to compare with.
with letters as (
  select
    queue, fingerprint, client, consumer, reason,
    coalesce(request, nullif(regexp_extract(id, '^(.*)/', 1), '')) as request,
    cast(unix_millis(since_at) - unix_millis(since_at) % {hour_ms} as string) as hour
  from {dead}
  where _corrupt is null
), sizes as (
  select queue, fingerprint, count(*) as n from letters group by queue, fingerprint
), payload_sizes as (
  select queue, fingerprint, count(distinct id) as n from {payloads} group by queue, fingerprint
), counted as (
  select v.queue, v.fingerprint, field, value, count(*) as k, max(s.n) as n
  from letters unpivot (value for field in (client, request, consumer, reason, hour)) as v
  join sizes as s on v.queue = s.queue and v.fingerprint = s.fingerprint
  group by v.queue, v.fingerprint, field, value
  union all
  select p.queue, p.fingerprint, field, value, count(*) as k, max(s.n) as n
  from {payloads} as p
  join payload_sizes as s on p.queue = s.queue and p.fingerprint = s.fingerprint
  group by p.queue, p.fingerprint, field, value
), totals as (
  select queue, false as in_payload, cast(sum(n) as bigint) as all_n from sizes group by queue
  union all
  select queue, true as in_payload, cast(sum(n) as bigint) as all_n from payload_sizes group by queue
), compared as (
  select
    c.queue as queue, fingerprint, field, value, k, n, all_n - n as m,
    cast(sum(k) over (partition by c.queue, field, value) as bigint) - k as others
  from counted as c
  join totals as t on c.queue = t.queue and in_payload = (field like 'payload%')
), bounded as (
  select
    *, difference_bound(k, n, others, m) as surely, k / cast(n as double) as share,
    others / cast(m as double) as rest
  from compared
  where k >= {support} and m > 0
), ranked as (
  select
    *,
    row_number() over (
      partition by queue, fingerprint order by surely desc, share desc, field, value
    ) as place
  from bounded
  where surely > 0
)
select queue, fingerprint, place, field, value, share, rest, surely
from ranked
where place <= {max_traits}
order by queue, fingerprint, place
