"""Laravel and Horizon: failed charges, a job of a killed worker, waiting and delayed jobs.

Written as the sources of Laravel and Horizon write it.
"""

import os

import redis

from tests.foreign_keys.laravel_program import Program


def fill(client: redis.Redis) -> None:
    program = Program(client, "default")
    for order in range(1, 5):
        program.push(program.payload(f"charge-{order}", "Charge", order=order, region="eu"))
        program.fail(program.pop(), str(order))
    program.push(program.payload("export-2024", "ExportYear", year=2024))
    program.pop(retry_after=-60)
    for year in (2025, 2026):
        program.push(program.payload(f"export-{year}", "ExportYear", year=year))
    program.later(7200, program.payload("receipt-7", "SendReceipt", order=7))


if __name__ == "__main__":
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        fill(client)
