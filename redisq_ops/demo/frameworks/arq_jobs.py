"""arq in the demo, run by a Python that has arq: python arq_jobs.py PORT produce|work"""

import asyncio
import random
import sys

from arq import Retry, Worker, create_pool
from arq.connections import RedisSettings


async def sync_customer(ctx, customer, region):
    """Takes a moment; one region's server is gone, and others are tried again."""
    await asyncio.sleep(random.uniform(0.1, 0.6))
    if region == "ap":
        raise ConnectionError("crm-ap.example.org: connection refused")
    if random.random() < 0.05:
        raise Retry(defer=20)


async def geocode(ctx, address):
    await asyncio.sleep(0.2)


async def send(pool, n):
    region = "ap" if n % 14 == 6 else ("eu", "us")[n % 2]
    await pool.enqueue_job("sync_customer", n, region)
    if n % 3 == 0:
        await pool.enqueue_job("geocode", f"{n} Station Road", _defer_by=30 + n % 60)


async def produce(pool):
    for n in range(1, 31):
        await send(pool, n)
    print("ready", flush=True)
    while True:
        n += 1
        await send(pool, n)
        await asyncio.sleep(random.uniform(0.2, 0.6))


async def main():
    pool = await create_pool(RedisSettings(port=int(sys.argv[1])))
    if sys.argv[2] == "produce":
        await produce(pool)
    worker = Worker([sync_customer, geocode], redis_pool=pool, max_jobs=3, handle_signals=False)
    await worker.async_run()


asyncio.run(main())
