"""dramatiq: what ``dramatiq --processes 1 --threads N`` runs in its process."""

import os
import time

from timing import JOBS, MODE, PAYLOAD, URL, handled

THREADS, *PREFETCH = (word for word in MODE.split() if word.isdecimal())
if PREFETCH:  # read when dramatiq is imported
    os.environ["dramatiq_queue_prefetch"] = PREFETCH[0]  # noqa: SIM112

import dramatiq  # noqa: E402
from dramatiq.brokers.redis import RedisBroker  # noqa: E402

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(payload):
    handled()


for _ in range(JOBS):
    noop.send(PAYLOAD)
dramatiq.Worker(broker, worker_threads=int(THREADS)).start()
time.sleep(3600)
