"""arq, run with its own packages: failed charges, a job of a lost worker, waiting ones."""

import asyncio
import os

from arq import Retry, Worker, create_pool
from arq.connections import RedisSettings


async def charge(ctx, order, region):
    if order < 4:
        raise ValueError(f"no card for order {order}")
    raise TimeoutError("the bank did not answer")


async def export_year(ctx, year):
    """Needs a machine with more memory; asks for another try."""
    raise Retry(defer=7200)


async def send_receipt(ctx, order, region):
    return order


async def fill():
    settings = RedisSettings.from_dsn(os.environ["REDIS_URL"])
    pool = await create_pool(settings)
    for order in range(1, 5):
        await pool.enqueue_job("charge", order, region="eu", _job_id=f"charge-{order}")
    await pool.enqueue_job("export_year", 2024, _job_id="export-2024")
    worker = Worker(
        [charge, export_year, send_receipt],
        redis_pool=pool,
        burst=True,
        max_burst_jobs=5,
        poll_delay=0.01,
        handle_signals=False,
    )
    await worker.main()
    await pool.delete(worker.health_check_key)
    for order in range(8, 12):
        region = "us" if order == 9 else "eu"
        await pool.enqueue_job("send_receipt", order, region, _job_id=f"receipt-{order}")
    await pool.set("arq:in-progress:receipt-8", "1", px=300_000)  # its worker is gone


asyncio.run(fill())
