"""RQ: failed charges, a job that killed its work horse, waiting and scheduled ones."""

import os
import signal
from datetime import timedelta

import redis
import rq


def charge(order, region):
    if order < 4:
        raise ValueError(f"no card for order {order}")
    raise TimeoutError("the bank did not answer")


def export_year(year):
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is short


def send_receipt(order, region): ...


def fill():
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        mail = rq.Queue("mail", connection=client)

        def add(function, *arguments, id):
            mail.enqueue(f"shop.{function}", *arguments, job_id=id)

        for order in range(1, 5):
            add("charge", order, "eu", id=f"charge-{order}")
        rq.SimpleWorker([mail], connection=client).work(burst=True, logging_level="CRITICAL")
        add("export_year", 2024, id="export-2024")
        rq.Worker([mail], connection=client).work(burst=True, logging_level="CRITICAL")
        for order in range(8, 12):
            add("send_receipt", order, "us" if order == 9 else "eu", id=f"receipt-{order}")
        add("export_year", 2025, id="export-2025")
        mail.enqueue_in(timedelta(hours=2), "shop.send_receipt", 7, "eu", job_id="receipt-7")


if __name__ == "__main__":
    fill()
