-- Queues whose history has no delivery.
select queue
from {history}
where queue is not null
group by queue
having count(case when event = 'taken' then 1 end) = 0
order by queue
limit 100
