"""Two tasks of Dramatiq. `dramatiq shop`"""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

url = os.environ["REDIS_URL"]
broker = RedisBroker(url=url)
broker.add_middleware(Results(backend=RedisBackend(url=url)))
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=5, min_backoff=5000, store_results=True)
def thumbnail(path: str, width: int = 200) -> list[int]:
    return [width, width * 3 // 4]


@dramatiq.actor(max_retries=5, min_backoff=5000, store_results=True)
def invoice(order: int) -> str:
    return f"invoice {order}"


def main() -> None:
    first, second = thumbnail.send("a.png", width=100), invoice.send(17)
    for message in (first, second):
        print(message.get_result(block=True, timeout=60_000))
