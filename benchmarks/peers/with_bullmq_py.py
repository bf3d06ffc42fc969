"""bullmq's Python package: addBulk in chunks; one worker."""

import asyncio
import time

from bullmq import Queue, Worker
from timing import JOBS, MODE, PAYLOAD, URL, WHAT, handled, report

CHUNK = int(MODE.split()[-1]) if WHAT == "submit" else 1000


async def noop(job, token):
    handled()


async def main() -> None:
    queue = Queue("peer", {"connection": URL})
    began = time.perf_counter()
    for start in range(0, JOBS, CHUNK):
        job = {"name": "noop", "data": {"payload": PAYLOAD}, "opts": {"removeOnComplete": True}}
        await queue.addBulk([job] * min(CHUNK, JOBS - start))
    if WHAT == "submit":
        report(JOBS, time.perf_counter() - began)
    Worker("peer", noop, {"connection": URL, "concurrency": int(MODE.split()[-1])})
    await asyncio.Event().wait()


asyncio.run(main())
