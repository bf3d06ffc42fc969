"""rq: `rq requeue --all` on failed jobs, as users type it. Arguments and answer: see timing.py."""

import subprocess
import sys
import time
from pathlib import Path

from redis import Redis
from rq import Queue
from rq.registry import FailedJobRegistry
from timing import JOBS, PAYLOAD, URL, report

client = Redis.from_url(URL)
queue = Queue("peer", connection=client)
failed = FailedJobRegistry(queue=queue)
# Jobs as a worker leaves them: a record each, and a place in the registry of what failed.
jobs = queue.enqueue_many([Queue.prepare_data("timing.handled", (PAYLOAD,)) for _ in range(JOBS)])
client.delete(queue.key)
for job in jobs:
    failed.add(job, -1, exc_string="ValueError: no such customer")
rq = Path(sys.executable).with_name("rq")
command = [str(rq), "requeue", "--url", URL, "--queue", "peer", "--all"]


def server_seconds() -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


used, began = server_seconds(), time.perf_counter()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
seconds = time.perf_counter() - began
assert len(queue) == JOBS, f"{len(queue)} of {JOBS} are back"
report(JOBS, seconds, server_seconds=server_seconds() - used)
