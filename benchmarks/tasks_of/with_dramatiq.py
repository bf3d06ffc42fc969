"""dramatiq: what ``dramatiq --processes 1 --threads N`` runs in its process, with results."""

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from timing import JOBS, MODE, URL, WHAT, handled, report

broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def resize(path: str, width: int) -> dict:
    handled()
    return {"width": width, "height": width // 2}


began = time.perf_counter()
for n in range(JOBS):
    resize.send(f"pictures/{n}.png", width=100)
if WHAT == "submit":
    report(JOBS, time.perf_counter() - began)
dramatiq.Worker(broker, worker_threads=int(MODE.split()[0])).start()
time.sleep(3600)
