"""Celery: failed charges, tasks of a killed worker, waiting ones. With `work`: its worker."""

import os
import subprocess
import sys
import time

import celery
import redis

URL = os.environ["REDIS_URL"]
app = celery.Celery("shop", broker=URL, backend=URL)
app.conf.update(
    task_default_queue="mail", result_extended=True, broker_connection_retry_on_startup=True
)


@app.task(name="shop.charge")
def charge(order, region):
    if order < 4:
        raise ValueError(f"no card for order {order}")
    raise TimeoutError("the bank did not answer")


@app.task(name="shop.export_year", acks_late=True)
def export_year(year):
    time.sleep(600)


@app.task(name="shop.send_receipt")
def send_receipt(order, region):
    return order


def fill():
    client = redis.Redis.from_url(URL)
    for order in range(1, 5):
        charge.apply_async((order, "eu"), task_id=f"charge-{order}")
    command = [sys.executable, "-m", "tests.docs.incidents.celery_shop", "work"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker:
        until(lambda: len(list(client.scan_iter("celery-task-meta-*"))) == 4)
        export_year.apply_async((2024,), task_id="export-2024")
        send_receipt.apply_async((7, "eu"), task_id="receipt-7", countdown=7200)
        until(lambda: client.hlen("unacked") == 2)
        worker.kill()
    for order in range(8, 12):
        send_receipt.apply_async((order, "us" if order == 9 else "eu"), task_id=f"receipt-{order}")
    export_year.apply_async((2025,), task_id="export-2025")


def until(true):
    deadline = time.monotonic() + 40
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


if sys.argv[1:] == ["work"]:
    words = "worker --pool=threads --concurrency=2 --loglevel=critical"
    app.worker_main([*words.split(), "--without-gossip", "--without-mingle"])
elif __name__ == "__main__":
    fill()
