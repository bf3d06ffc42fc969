-- The rows of some queues, by time.
select r.* from {rows} as r join {queues} as q on r.queue = q.queue order by r.queue, from_at
