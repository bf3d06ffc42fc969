"""RQ in the demo, run by a Python that has RQ: python rq_jobs.py PORT produce|work"""

import random
import sys
import time
from datetime import timedelta

import redis
import rq


def render(picture, width):
    """Takes a moment; some pictures are broken, and some servers don't answer at first."""
    time.sleep(random.uniform(0.05, 0.3))
    if picture.endswith("13.png"):
        raise ValueError(f"{picture} is no PNG: bad signature")
    if random.random() < 0.05:
        raise TimeoutError("no answer from storage-2 within 10 s")


def export(month):
    time.sleep(2)


def send(thumbs, exports, n):
    retry = rq.Retry(max=2, interval=[15, 60])
    thumbs.enqueue("rq_jobs.render", f"photo-{n % 40}.png", width=640, retry=retry)
    if n % 10 == 0:
        exports.enqueue("rq_jobs.export", f"2026-{1 + n % 12:02}")
        exports.enqueue_in(timedelta(seconds=90), "rq_jobs.export", "nightly")


def produce(client):
    thumbs, exports = (rq.Queue(name, connection=client) for name in ("thumbs", "exports"))
    for n in range(1, 31):
        send(thumbs, exports, n)
    print("ready", flush=True)
    while True:
        n += 1
        send(thumbs, exports, n)
        time.sleep(random.uniform(0.2, 0.8))


if __name__ == "__main__":
    client = redis.Redis(port=int(sys.argv[1]))
    if sys.argv[2] == "produce":
        produce(client)
    worker = rq.SimpleWorker(["thumbs", "exports"], connection=client)
    worker.work(with_scheduler=True, logging_level="CRITICAL")
