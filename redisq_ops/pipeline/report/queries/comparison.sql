-- Each queue's metrics in this report and in another one; dead letters by error group.
select
  coalesce(a.queue, b.queue) as queue,
  coalesce(a.metric, b.metric) as metric,
  nullif(coalesce(a.fingerprint, b.fingerprint), '') as fingerprint,
  a.value as value,
  b.value as against
from {totals} as a
full join {others} as b
  on a.queue = b.queue and a.metric = b.metric and a.fingerprint = b.fingerprint
order by queue, metric, fingerprint
