-- The events of a request, in each queue that has one of that id.
select h.*
from {history} as h join {requests} as r on h.request = r.request or h.id = r.request
