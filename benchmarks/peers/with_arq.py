"""arq: a worker that polls without a pause and keeps no results, or with arq's own settings."""

import asyncio

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func
from timing import JOBS, MODE, PAYLOAD, URL, handled

if "uvloop" in MODE:
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


async def noop(context, payload):
    handled()


async def main() -> None:
    pool = await create_pool(RedisSettings.from_dsn(URL))
    for start in range(0, JOBS, 50):
        puts = (pool.enqueue_job("noop", PAYLOAD) for _ in range(min(50, JOBS - start)))
        await asyncio.gather(*puts)
    options = {"redis_pool": pool, "log_results": False, "handle_signals": False}
    if not MODE.startswith("default"):
        options |= {"max_jobs": int(MODE.split()[0]), "poll_delay": 0.01}
    worker = Worker([func(noop, name="noop", keep_result=0)], **options)
    await worker.async_run()


asyncio.run(main())
