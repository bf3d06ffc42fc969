"""Two tasks of arq, which retries only what raises its Retry. `arq shop.WorkerSettings`"""

import asyncio
import functools
import os
from collections.abc import Callable
from typing import Any

from arq import Retry, create_pool
from arq.connections import RedisSettings


def retrying(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except Exception:
            if context["job_try"] > 5:
                raise
            raise Retry(defer=5 * 2 ** (context["job_try"] - 1)) from None

    return run


@retrying
async def thumbnail(path: str, width: int = 200) -> list[int]:
    return [width, width * 3 // 4]


@retrying
async def invoice(order: int) -> str:
    return f"invoice {order}"


class WorkerSettings:
    functions = (thumbnail, invoice)
    max_tries = 6
    redis_settings = RedisSettings.from_dsn(os.environ["REDIS_URL"])


async def submit() -> None:
    pool = await create_pool(WorkerSettings.redis_settings)
    first = await pool.enqueue_job("thumbnail", "a.png", width=100)
    second = await pool.enqueue_job("invoice", 17)
    print(await first.result(timeout=60), await second.result(timeout=60))


def main() -> None:
    asyncio.run(submit())
