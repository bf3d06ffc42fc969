"""redisq-ops, one of its kinds: `Worker(queue, handler)`, or with a batch; its own bulk submit."""

import time

import redis

from benchmarks.peers.kinds import KINDS
from benchmarks.peers.timing import JOBS, MODE, PAYLOAD, URL, WHAT, handled, report
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker

kind, *rest = MODE.split()  # "request, batch 100", "request, default"; submitting has no batch
client = connect(URL, "benchmark")
assert isinstance(client, redis.Redis)
queue, put = KINDS[kind.rstrip(",")](client)
jobs = [(f"e{n}", PAYLOAD.encode()) for n in range(JOBS)]
began = time.perf_counter()
put(jobs)
if WHAT == "submit":
    report(JOBS, time.perf_counter() - began)
batch = 1 if rest[-1] == "default" else int(rest[-1])
Worker(queue, handled, batch=batch).run()
