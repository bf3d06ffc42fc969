"""Two tasks of Celery. `celery -A shop worker`"""

import os

from celery import Celery

url = os.environ["REDIS_URL"]
app = Celery("shop", broker=url, backend=url)
policy = {"autoretry_for": (Exception,), "max_retries": 5, "retry_backoff": 5}


@app.task(**policy)
def thumbnail(path: str, width: int = 200) -> list[int]:
    return [width, width * 3 // 4]


@app.task(**policy)
def invoice(order: int) -> str:
    return f"invoice {order}"


def main() -> None:
    first, second = thumbnail.delay("a.png", width=100), invoice.delay(17)
    print(first.get(timeout=60), second.get(timeout=60))
