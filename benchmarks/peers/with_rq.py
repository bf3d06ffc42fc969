"""rq: SimpleWorker, or the default Worker, which forks for each job; enqueue_many in chunks."""

import time

from redis import Redis
from rq import Queue, SimpleWorker, Worker
from timing import JOBS, MODE, PAYLOAD, URL, WHAT, handled, report

client = Redis.from_url(URL)
queue = Queue("peer", connection=client)
CHUNK = int(MODE.split()[-1]) if WHAT == "submit" else 1000


FORKS = MODE.startswith("default")
HANDLER = "builtins.len" if FORKS else "timing.handled"


class ForkingWorker(Worker):
    """Counts in the parent: a child's counter ends with it."""

    def execute_job(self, job, queue):
        handled()
        super().execute_job(job, queue)


def put() -> None:
    for start in range(0, JOBS, CHUNK):
        # rq refuses functions of __main__; with a result_ttl of 0 what is done is gone, as it is
        # with ours.
        job = [
            Queue.prepare_data(HANDLER, (PAYLOAD,), result_ttl=0)
            for _ in range(min(CHUNK, JOBS - start))
        ]
        queue.enqueue_many(job)


began = time.perf_counter()
put()
if WHAT == "submit":
    report(JOBS, time.perf_counter() - began)
(ForkingWorker if FORKS else SimpleWorker)([queue], connection=client).work(
    burst=True, logging_level="WARNING"
)
