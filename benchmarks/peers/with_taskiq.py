"""taskiq with taskiq-redis: the receiver that ``taskiq worker --workers 1`` runs in its process."""

import asyncio

from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker, RedisStreamBroker
from timing import JOBS, MODE, PAYLOAD, URL, handled

if "uvloop" in MODE:  # the command uses it too, where it is installed
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
broker = (RedisStreamBroker if "stream" in MODE else ListQueueBroker)(URL)


@broker.task
async def noop(payload: str) -> None:
    handled()


async def main() -> None:
    await broker.startup()
    for start in range(0, JOBS, 50):
        await asyncio.gather(*(noop.kiq(PAYLOAD) for _ in range(min(50, JOBS - start))))
    await run_receiver_task(broker, max_async_tasks=100, max_prefetch=100)


asyncio.run(main())
