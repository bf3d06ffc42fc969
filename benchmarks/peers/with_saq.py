"""saq: one worker; jobs that are done are deleted (ttl -1)."""

import asyncio

from saq import Queue, Worker
from timing import JOBS, MODE, PAYLOAD, URL, handled

TASKS = next(int(word) for word in MODE.split() if word.isdecimal())
if "uvloop" in MODE:
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


async def noop(context, *, payload):
    handled()


async def main() -> None:
    queue = Queue.from_url(URL)
    await queue.connect()
    for start in range(0, JOBS, 20):
        puts = (
            queue.enqueue("noop", payload=PAYLOAD, ttl=-1) for _ in range(min(20, JOBS - start))
        )
        await asyncio.gather(*puts)
    await Worker(queue, functions=[noop], concurrency=TASKS).start()


asyncio.run(main())
