-- The queues that have a delivery of a request.
select distinct a.queue as queue, a.request as request
from {attempts} as a join {requests} as r on a.request = r.request
