"""celery: one worker with no result backend, no gossip, no events."""

from celery import Celery
from timing import JOBS, MODE, PAYLOAD, URL, handled

app = Celery("peer", broker=URL)
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True
if not MODE.startswith("default"):
    app.conf.worker_prefetch_multiplier = 100


@app.task(name="noop")
def noop(payload):
    handled()


with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
    for _ in range(JOBS):
        noop.apply_async((PAYLOAD,), producer=producer)
pool, _, size = MODE.removeprefix("default, ").partition(" ")
quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
app.worker_main(["worker", "-P", pool, "-c", size or "1", *quiet])
