"""Two tasks of Huey. `huey_consumer shop.huey`"""

import os

from huey import RedisHuey

huey = RedisHuey("shop", url=os.environ["REDIS_URL"])


@huey.task(retries=5, retry_delay=5, retry_backoff=2)
def thumbnail(path: str, width: int = 200) -> list[int]:
    return [width, width * 3 // 4]


@huey.task(retries=5, retry_delay=5, retry_backoff=2)
def invoice(order: int) -> str:
    return f"invoice {order}"


def main() -> None:
    first, second = thumbnail("a.png", width=100), invoice(17)
    print(first.get(blocking=True, timeout=60), second.get(blocking=True, timeout=60))
