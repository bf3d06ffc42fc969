-- One row: the times of the first and last event, and numbers of events.
select
  unix_millis(min(at)) as begin_ms,
  unix_millis(max(at)) as end_ms,
  count(case when _corrupt is null then 1 end) as events,
  count(case when _corrupt is not null then 1 end) as unread,
  count(case when event = 'gap' then 1 end) as gaps
from {history}
