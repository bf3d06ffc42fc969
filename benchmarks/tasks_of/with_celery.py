"""celery: one worker, a Redis result backend."""

import time

from celery import Celery
from timing import JOBS, MODE, URL, WHAT, handled, report

app = Celery("jobs", broker=URL, backend=URL)
app.conf.broker_connection_retry_on_startup = True


@app.task
def resize(path: str, width: int) -> dict:
    handled()
    return {"width": width, "height": width // 2}


began = time.perf_counter()
for n in range(JOBS):
    resize.delay(f"pictures/{n}.png", width=100)
if WHAT == "submit":
    report(JOBS, time.perf_counter() - began)
pool, size = MODE.split()
app.worker_main(["worker", "-P", pool, "-c", size, "-l", "WARNING"])
