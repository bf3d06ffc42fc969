"""Jobs of a real arq and its worker: run by `arq_program`, with arq's packages and none of ours.

python arq_jobs.py PORT enqueue JSON    [[function, [arguments], {options}], …]
python arq_jobs.py PORT work [QUEUE]    until nothing is left that is due
python arq_jobs.py PORT serve [QUEUE]   until it is killed
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

from arq import Retry, Worker, create_pool
from arq.connections import RedisSettings
from arq.worker import func


async def fine(ctx: dict[Any, Any], n: int) -> int:
    return n


async def fails(ctx: dict[Any, Any], what: str, order: int = 0) -> None:
    raise ValueError(f"no {what}")


async def later(ctx: dict[Any, Any]) -> None:
    raise Retry(defer=3600)


async def spent(ctx: dict[Any, Any], id: str) -> None:
    """Says that it ran, and asks for another try while the key ``again`` is there."""
    await ctx["redis"].hincrby("ran", id, 1)
    if await ctx["redis"].exists("again"):
        raise Retry


class Odd(Exception):
    """A pickle of it can't be loaded: the class needs more than is kept."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


async def odd(ctx: dict[Any, Any], id: str) -> None:
    """Says that it ran, and fails the first time."""
    if await ctx["redis"].hincrby("ran", id, 1) == 1:
        raise Odd("no", "luck")


async def lasts(ctx: dict[Any, Any]) -> None:
    await ctx["redis"].incr("started")
    await asyncio.sleep(600)


async def vanishes(ctx: dict[Any, Any], running: int) -> None:
    """The machine is gone when so many others have begun."""
    while int(await ctx["redis"].get("started") or 0) < running:
        await asyncio.sleep(0.01)
    await ctx["redis"].delete("started")
    os._exit(0)


def texts(job: dict[str, Any]) -> bytes:
    """A serializer, as an application may have one."""
    return json.dumps(job, default=repr).encode()


JSON: Any = {"job_serializer": texts, "job_deserializer": json.loads}
FUNCTIONS = [fine, fails, later, func(spent, max_tries=2), odd, lasts, vanishes]


async def main(port: int, command: str, *rest: str) -> None:
    serializer = JSON if os.environ.get("ARQ_JSON") else {}
    pool = await create_pool(RedisSettings(port=port), **serializer)
    if command == "enqueue":
        for function, arguments, options in json.loads(rest[0]):
            await pool.enqueue_job(function, *arguments, **options)
        return
    worker = Worker(
        FUNCTIONS,
        redis_pool=pool,
        queue_name=rest[0] if rest else "arq:queue",
        poll_delay=0.01,
        handle_signals=False,
        allow_abort_jobs=True,
        job_timeout=3600,
        **serializer,
    )
    running = asyncio.ensure_future(worker.async_run())
    while command == "serve" or await pool.zcount(worker.queue_name, "-inf", time.time() * 1000):
        done, _ = await asyncio.wait([running], timeout=0.01)
        for one in done:
            one.result()
    running.cancel()
    await pool.delete(worker.health_check_key)  # as when it stops


asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
