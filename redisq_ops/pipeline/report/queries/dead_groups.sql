-- Dead letters by error, the largest group of each queue first. Groups are those of
-- `redisq dlq groups`. Errors are redacted before they are cut.
with letters as (
  select
    queue, fingerprint, count(*) as entries,
    count(case when reason = 'failed' then 1 end) as failed,
    count(case when reason = 'lost' then 1 end) as lost,
    count(case when reason = 'rejected' then 1 end) as rejected,
    count(distinct client) as clients,
    count(distinct request) as requests,
    min(since_at) as first_at,
    max(since_at) as last_at,
    max(struct(
      coalesce(unix_millis(since_at), 0) as since_ms, id, error_type, error, reason
    )) as latest
  from {dead}
  where _corrupt is null
  group by queue, fingerprint
), shown as (
  select
    *,
    entries / cast(sum(entries) over (partition by queue) as double) as share,
    latest.id as sample,
    {redact}(latest.error_type) as error_type,
    substring({redact}(latest.error), 1, 1000) as message,
    latest.reason as reason
  from letters
)
select
  queue, fingerprint, entries, share, failed, lost, rejected, clients, requests, first_at, last_at,
  sample, error_type, coalesce(normal_form(message), reason, 'no error known') as form, message
from shown
order by queue, entries desc, last_at desc, fingerprint
