"""Dramatiq in the demo, run by a Python that has it: python dramatiq_jobs.py PORT produce|work"""

import random
import sys
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(port=int(sys.argv[1]))
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="emails", max_retries=2, min_backoff=10_000, max_backoff=40_000)
def send_welcome(user, language):
    """Takes a moment; one language has no template, and the mail server is busy at times."""
    time.sleep(random.uniform(0.05, 0.4))
    if language == "is":
        raise KeyError(f"welcome.{language}.html")
    if random.random() < 0.05:
        raise ConnectionError("451 mailbox busy, try again later")


def send(n):
    language = "is" if n % 15 == 4 else ("de", "en", "fr")[n % 3]
    if n % 4:
        send_welcome.send(n, language)
    else:
        send_welcome.send_with_options(args=(n, language), delay=60_000)


def produce():
    for n in range(1, 31):
        send(n)
    print("ready", flush=True)
    while True:
        n += 1
        send(n)
        time.sleep(random.uniform(0.2, 0.6))


if __name__ == "__main__":
    if sys.argv[2] == "produce":
        produce()
    dramatiq.Worker(broker, worker_threads=2).start()
    while True:
        time.sleep(60)
