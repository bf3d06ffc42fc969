-- The deliveries of some requests, for their critical paths.
select a.queue, a.request, id, attempt, consumer, since, since_ms, taken_ms, ended, ended_ms
from {attempts} as a
join {requests} as r on a.queue = r.queue and a.request = r.request
