"""Server time of Resque's and Sidekiq's layouts per job, in batches of 100.

*By hand* is a reliable consumer as users write it: a push, an LMOVE to its own list, an LREM;
without lease, fence, guard against repeated calls, or counters. The baseline with our writes is in
`cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure, Outcome, Settlement

from .measure import ROUNDS, empty, server_us, servers, spread

ENTRIES = 20_000
BATCH = 100
ARGS = ["x" * 60]
ERROR = Failure("Boom", "it broke").encoded()

JobQueue = ResqueQueue[redis.Redis] | SidekiqQueue[redis.Redis]


def put(queue: JobQueue) -> None:
    for _ in range(0, ENTRIES, BATCH):
        queue.push([Job("HardJob", ARGS)] * BATCH)


def work_off(queue: JobQueue, outcome: Outcome = "ack") -> None:
    while taken := queue.take(BATCH, consumer="w").deliveries:
        queue.settle([Settlement(delivery, outcome, ERROR) for delivery in taken])


def replay(queue: JobQueue) -> None:
    step = 0
    while entries := queue.page("dead", max=BATCH).entries:
        step += 1
        queue.move(
            "op",
            step,
            [entry.id for entry in entries],
            source="dead",
            target="waiting",
            high_water_ms=queue.now(),
        )


def put_by_hand(client: redis.Redis) -> None:
    for start in range(0, ENTRIES, BATCH):
        rows = [b'{"class":"HardJob","args":["%060d"]}' % n for n in range(start, start + BATCH)]
        client.rpush("theirs", *rows)


def work_off_by_hand(client: redis.Redis) -> None:
    while True:
        pipe = client.pipeline(transaction=False)
        for _ in range(BATCH):
            pipe.lmove("theirs", "mine", "LEFT", "RIGHT")
        taken = [job for job in pipe.execute() if job]
        if not taken:
            return
        for job in taken:
            pipe.lrem("mine", 1, job)
        pipe.execute()


def figures(client: redis.Redis) -> dict[str, float]:
    """One round: operation -> µs per job."""
    costs: dict[str, float] = {}

    def cost(name: str, work: Callable[[], object]) -> None:
        costs[name] = server_us(client, work)[0] / ENTRIES

    for queue in (ResqueQueue(client, "resque:q"), SidekiqQueue(client, "sidekiq:q")):
        cost(f"{queue.kind}: push", partial(put, queue))
        cost(f"{queue.kind}: take and acknowledge", partial(work_off, queue))
        put(queue)
        cost(f"{queue.kind}: take and reject", partial(work_off, queue, "reject"))
        cost(f"{queue.kind}: replay", partial(replay, queue))
    cost("by hand: push", lambda: put_by_hand(client))
    cost("by hand: take and acknowledge", lambda: work_off_by_hand(client))
    return costs


def main() -> None:
    with servers() as each:
        for name, client in each:
            rounds = []
            for _ in range(ROUNDS):
                empty(client)
                rounds.append(figures(client))
            print(name)
            for operation in rounds[0]:
                print(f"  {operation:32} {spread([r[operation] for r in rounds], 'µs')}")
