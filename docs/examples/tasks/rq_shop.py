"""Two tasks of RQ. `rq worker --with-scheduler shop`"""

import os

from redis import Redis
from rq import Queue, Retry

queue = Queue("shop", connection=Redis.from_url(os.environ["REDIS_URL"]))
retry = Retry(max=5, interval=[5, 10, 20, 40, 80])


def thumbnail(path: str, width: int = 200) -> list[int]:
    return [width, width * 3 // 4]


def invoice(order: int) -> str:
    return f"invoice {order}"


def main() -> None:
    first = queue.enqueue(thumbnail, "a.png", width=100, retry=retry)
    second = queue.enqueue(invoice, 17, retry=retry)
    for job in (first, second):
        print(job.latest_result(timeout=60).return_value)
