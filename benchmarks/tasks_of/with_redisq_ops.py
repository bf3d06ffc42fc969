"""redisq-ops' tasks, or a handler without tasks on the same entries: one that reads and writes the
same JSON, or one that does nothing."""

import json
import time
from dataclasses import dataclass

from benchmarks.peers.timing import JOBS, MODE, URL, WHAT, handled, report
from redisq_ops import Work, Worker
from redisq_ops.tasks import Tasks

jobs = Tasks("jobs", url=URL)
RESULT = b'{"width":100,"height":50}'


@dataclass
class Size:
    width: int
    height: int


@jobs.task()
def resize(path: str, width: int) -> Size:
    handled()
    return Size(width, width // 2)


def by_json(work: Work) -> dict[str, int]:
    handled()
    width = json.loads(work.payload)["kwargs"]["width"]
    return {"width": width, "height": width // 2}


def empty(work: Work) -> bytes:
    handled()
    return RESULT


concurrency = int(MODE.split()[-1])
if WHAT == "submit":
    began = time.perf_counter()
    for n in range(JOBS):
        resize.submit(f"pictures/{n}.png", 100)
    report(JOBS, time.perf_counter() - began)
entries = [resize._plan((f"pictures/{n}.png", 100))[0] for n in range(JOBS)]
for start in range(0, JOBS, 500):  # the same, for less time
    jobs.queues.queue("jobs").schedule(entries[start : start + 500])
if not MODE.startswith("tasks"):
    queues = [jobs.queues.queue("jobs"), jobs.queues.queue("jobs.map")]
    handler = by_json if MODE.startswith("handler") else empty
    Worker(queues, handler, in_order=True, concurrency=concurrency).run()
jobs.worker(concurrency=concurrency).run()
