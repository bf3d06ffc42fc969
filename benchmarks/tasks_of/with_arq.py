"""arq: it pickles; a worker with its own poll of 0.5 s."""

import asyncio
import time

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker
from timing import JOBS, MODE, URL, WHAT, handled, report


async def resize(context, path: str, width: int) -> dict:
    handled()
    return {"width": width, "height": width // 2}


async def main() -> None:
    pool = await create_pool(RedisSettings.from_dsn(URL))
    began = time.perf_counter()
    for n in range(JOBS):
        await pool.enqueue_job("resize", f"pictures/{n}.png", width=100)
    if WHAT == "submit":
        report(JOBS, time.perf_counter() - began)
    options = {"log_results": False, "handle_signals": False}
    await Worker([resize], redis_pool=pool, max_jobs=int(MODE.split()[0]), **options).async_run()


asyncio.run(main())
