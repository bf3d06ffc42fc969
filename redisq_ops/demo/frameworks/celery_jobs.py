"""Celery in the demo, run by a Python that has Celery: python celery_jobs.py PORT produce|work"""

import random
import sys
import time

import celery

URL = f"redis://127.0.0.1:{sys.argv[1]}/0"

app = celery.Celery("ledger", broker=URL, backend=URL)
app.conf.update(
    task_default_queue="ledger",
    result_extended=True,
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
    result_expires=3600,
)


@app.task(name="ledger.book", bind=True, max_retries=3)
def book(task, invoice, currency):
    """Takes a moment; an unknown currency fails for good, a locked account is tried again."""
    time.sleep(random.uniform(0.1, 0.5))
    if currency == "XTS":
        raise ValueError(f"unknown currency {currency} on invoice {invoice}")
    if random.random() < 0.05:
        raise task.retry(countdown=20, exc=TimeoutError("the account is locked"))
    return invoice


@app.task(name="ledger.remind")
def remind(invoice):
    time.sleep(0.1)


def send(invoice):
    currency = "XTS" if invoice % 12 == 5 else ("EUR", "USD", "CHF")[invoice % 3]
    book.delay(invoice, currency)
    if invoice % 5 == 0:
        remind.apply_async((invoice,), countdown=60 + 10 * (invoice % 7))


def produce():
    for invoice in range(1, 31):
        send(invoice)
    print("ready", flush=True)
    while True:
        invoice += 1
        send(invoice)
        time.sleep(random.uniform(0.2, 0.7))


if __name__ == "__main__":
    if sys.argv[2] == "produce":
        produce()
    options = "--pool=threads --concurrency=2 --loglevel=critical --without-gossip"
    app.worker_main(["worker", *options.split(), "-Q", "ledger"])
