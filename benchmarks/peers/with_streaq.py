"""streaq: one worker; no results kept, no line logged per task."""

import anyio
from streaq import Worker
from timing import JOBS, MODE, PAYLOAD, URL, handled

worker = Worker(redis_url=URL, concurrency=int(MODE.split()[-2]))


@worker.task(name="noop", ttl=0, silent=True)
async def noop(payload):
    handled()


async def put() -> None:
    async with worker:
        for start in range(0, JOBS, 500):
            count = min(500, JOBS - start)
            await worker.enqueue_many([noop.enqueue(PAYLOAD) for _ in range(count)])


anyio.run(put)
worker.run_sync()
