"""huey: a consumer of threads; it pickles, and has no lease."""

import time

from huey import RedisHuey
from timing import JOBS, MODE, URL, WHAT, handled, report

huey = RedisHuey("jobs", url=URL)


@huey.task()
def resize(path: str, width: int) -> dict:
    handled()
    return {"width": width, "height": width // 2}


began = time.perf_counter()
for n in range(JOBS):
    resize(f"pictures/{n}.png", width=100)
if WHAT == "submit":
    report(JOBS, time.perf_counter() - began)
huey.create_consumer(workers=int(MODE.split()[0])).run()
