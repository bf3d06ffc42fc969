"""Two tasks of redisq-ops. `redisq work shop:jobs`"""

from redisq_ops.tasks import Tasks, exponential

jobs = Tasks("shop")


@jobs.task(retries=5, backoff=exponential(5, 600))
def thumbnail(path: str, width: int = 200) -> list[int]:
    return [width, width * 3 // 4]


@jobs.task(retries=5, backoff=exponential(5, 600))
def invoice(order: int) -> str:
    return f"invoice {order}"


def main() -> None:
    first, second = thumbnail.submit("a.png", width=100), invoice.submit(17)
    print(first.result(timeout=60), second.result(timeout=60))
