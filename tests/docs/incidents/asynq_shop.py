"""asynq: failed charges, a task with a killed server, waiting, scheduled and grouped ones.

Written as asynq's sources write it.
"""

import os
import time

import redis

from tests.foreign_keys.asynq_program import Program


def fill(client: redis.Redis) -> None:
    program, now = Program(client, "default"), int(time.time())
    for order in range(1, 5):
        program.send(f"charge-{order}", "order:charge", {"order": order, "region": "eu"}, retry=0)
        why = "the bank did not answer" if order == 4 else f"no card for order {order}"
        program.archives(program.dequeue(), why)
    program.send("export-2024", "year:export", {"year": 2024})
    program.dequeue()
    program.send("export-2025", "year:export", {"year": 2025}, retried=7)
    program.retries(program.dequeue(), "out of memory", now + 7200)
    for order in range(8, 12):
        region = "us" if order == 9 else "eu"
        program.send(f"receipt-{order}", "receipt:send", {"order": order, "region": region})
    program.send("receipt-7", "receipt:send", {"order": 7}, at=now + 7200)
    for n in range(3):
        program.send(f"news-{n}", "mail:digest", {"part": n}, group="ann")
    program.beats("box:17:5f1c", ("default",), work=("export-2024",), expires_s=3600)


if __name__ == "__main__":
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        fill(client)
