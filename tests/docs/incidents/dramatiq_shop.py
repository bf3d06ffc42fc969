"""Dramatiq: failed charges, messages of a lost worker, waiting and delayed ones."""

import os
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Callbacks, Retries

URL = os.environ["REDIS_URL"]


def new_broker():
    return RedisBroker(url=URL, middleware=[Callbacks(), Retries()])


broker = new_broker()
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=1)
def charge(order, region):
    if order < 4:
        raise ValueError(f"no card for order {order}")
    raise TimeoutError("the bank did not answer")


@dramatiq.actor
def export_year(year): ...


@dramatiq.actor
def send_receipt(order, region): ...


def fill():
    for order in range(1, 5):
        charge.send(order, region="eu")
    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=2)
    worker.start()
    broker.join("default", interval=10, timeout=30_000)
    worker.stop()
    # A worker fetches one, and its machine is gone for two minutes.
    export_year.send(2024)
    lost = new_broker()
    assert next(lost.consume("default", prefetch=1))
    with redis.Redis.from_url(URL) as client:
        client.zadd("dramatiq:__heartbeats__", {lost.broker_id: time.time() * 1000 - 120_000})
    for order in range(8, 12):
        send_receipt.send(order, region="us" if order == 9 else "eu")
    export_year.send(2025)
    send_receipt.send_with_options(args=(7, "eu"), delay=7_200_000)


if __name__ == "__main__":
    fill()
