"""rq: Worker, which forks for each job, or SimpleWorker; it pickles unless told otherwise."""

import time

from redis import Redis
from rq import Queue, SimpleWorker, Worker
from rq.serializers import JSONSerializer
from timing import JOBS, MODE, URL, WHAT, handled, report

client = Redis.from_url(URL)
queue = Queue("jobs", connection=client, serializer=JSONSerializer)


class ForkingWorker(Worker):
    """Counts in the parent: a child's counter ends with it."""

    def execute_job(self, job, queue):
        handled()
        super().execute_job(job, queue)


class CountingWorker(SimpleWorker):
    def perform_job(self, *given):
        handled()
        return super().perform_job(*given)


began = time.perf_counter()
for n in range(JOBS):
    queue.enqueue("rq_task.resize", f"pictures/{n}.png", width=100)
if WHAT == "submit":
    report(JOBS, time.perf_counter() - began)
kind = ForkingWorker if MODE.startswith("a fork") else CountingWorker
kind([queue], connection=client, serializer=JSONSerializer).work(logging_level="WARNING")
